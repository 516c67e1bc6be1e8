"""What a rule may see: a workload, what the model says about it, and what it would say about another."""

from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache, partial

from msgspec import Struct

from tuner import memory, timing
from tuner.findings import Severity
from tuner.memory import Estimate, PhaseEstimate, RolloutMemory
from tuner.timing import Interval, PhaseTime, StepChange, StepTime
from tuner.workload import Phase, Workload

# A smaller gain of the step is not worth a line to paste. Whether a larger one is certain, its uncertainty says.
LEAST_GAIN = 0.01
# Of the card: a peak that rises by less is where it was.
SAME_PEAK = 0.01
_CACHED = (Phase.ROLLOUT, Phase.WAKE_UP)  # in which a smaller memory fraction makes room
# Of the bytes that a phase lacks: a smaller micro-batch that wins less leaves the job as far from fitting.
LEAST_RELIEF = 0.1
# What changes the training has to be tried out: it is named where it takes a fifth of the step away.
LEAST_GAIN_OF_ANOTHER_TRAINING = 0.20


class CaseFigures:
    """What the model says about one workload, each part worked out when it is first asked for."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self.memory = memory.StepMemory(workload)

    @property
    def estimate(self) -> Estimate:
        """Memory per phase."""
        return self.memory.estimate

    @cached_property
    def rollout(self) -> RolloutMemory:
        """Memory of the rollout engine; ValueError of a job that generates nothing."""
        return memory.rollout_memory(self._workload.at_rest)

    @cached_property
    def time(self) -> StepTime:
        """Seconds per phase."""
        sequences = 0 if self._workload.rollout is None else self.rollout.concurrent_sequences
        return timing.step_time(self._workload, concurrent_sequences=sequences)


@lru_cache(maxsize=128)  # the proposals of a job, and of the one before that is like it
def figures(workload: Workload) -> CaseFigures:
    """The model's figures for a workload, remembered."""
    return CaseFigures(workload)


class Case(Struct, frozen=True, kw_only=True, dict=True):
    """One workload with its estimate, for the rules to judge.

    A proposal is judged by the same model: ``fits``, ``affords``, ``eases``, ``lowers``, ``faster``.
    Estimates are made when they are first asked for, and remembered, so that rules may ask freely.
    """

    workload: Workload
    headroom: float  # share of the card that proposals leave free
    guesses: bool = False  # what is expected to be faster counts as faster, be it certain or not

    @classmethod
    def of(cls, workload: Workload, *, headroom: float) -> "Case":
        """The question about a workload."""
        return cls(workload=workload, headroom=headroom)

    @cached_property
    def _figures(self) -> CaseFigures:
        return figures(self.workload)

    @property
    def estimate(self) -> Estimate:
        """Memory per phase."""
        return self._figures.estimate

    @property
    def time(self) -> StepTime:
        """Seconds per phase."""
        return self._figures.time

    @property
    def rollout(self) -> RolloutMemory:
        """Memory of the rollout engine."""
        return self._figures.rollout

    @property
    def phases(self) -> tuple[PhaseEstimate, ...]:
        """The phases of the estimate, without all else that makes it up."""
        return self._figures.memory.all_phases

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the job cannot run whatever a GPU holds, as in the estimate."""
        return self._figures.memory.problems

    @property
    def host_bytes(self) -> int:
        """Host memory per node, as in the estimate."""
        return self._figures.memory.host_bytes

    def with_workload(self, workload: Workload) -> "Case":
        """The case of another workload under the same headroom."""
        return Case(workload=workload, headroom=self.headroom, guesses=self.guesses)

    @property
    def guessing(self) -> "Case":
        """The case in which an expected gain of time counts, be it certain or not."""
        return Case(workload=self.workload, headroom=self.headroom, guesses=True)

    # -- memory --------------------------------------------------------------------------

    @property
    def limit_bytes(self) -> int:
        """Bytes a phase may take: the card less the headroom."""
        return int(self.capacity_bytes * (1 - self.headroom))

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the card."""
        return self.workload.cluster.gpu.capacity_bytes

    def phase(self, phase: Phase) -> PhaseEstimate | None:
        """The estimate of one phase, None when the step does not have it."""
        return self._figures.memory.phase(phase)

    def peak_bytes(self, phase: Phase) -> int:
        """Peak of a phase, 0 when the step does not have it."""
        in_phase = self.phase(phase)
        return 0 if in_phase is None else in_phase.peak_bytes

    def missing_bytes(self, in_phase: PhaseEstimate) -> int:
        """Bytes that a phase lacks: of its peak below the limit, or of its interval's upper end within the card."""
        over = in_phase.peak_bytes - self.limit_bytes
        return max(0, over, in_phase.interval[1] - self.capacity_bytes)

    def short(self, *phases: Phase) -> PhaseEstimate | None:
        """The worst of these phases (of all, when none is named) if it lacks memory."""
        candidates = [in_phase for in_phase in self.phases if not phases or in_phase.phase in phases]
        worst = max(candidates, key=self.missing_bytes, default=None)
        return worst if worst is not None and self.missing_bytes(worst) else None

    def eases(self, workload: Workload, *phases: Phase) -> bool:
        """Whether with a proposal none of these phases lacks memory."""
        phases_after = (figures(workload).memory.phase(phase) for phase in phases)
        return all(in_phase is None or not self.missing_bytes(in_phase) for in_phase in phases_after)

    def severity(self, phase: Phase) -> Severity:
        """How bad a phase over the limit is: a warning when it exceeds the card, advice when it is tight."""
        over = self.peak_bytes(phase) > self.capacity_bytes
        return Severity.WARNING if over else Severity.ADVICE

    def fits(self, workload: Workload) -> bool:
        """Whether a proposal leaves the headroom free in every phase."""
        return figures(workload).estimate.fits(self.headroom)

    def affords(self, workload: Workload) -> bool:
        """Whether a proposal costs no memory that is missing.

        Every phase is within the limit, the upper end of its interval as well, or no higher than it was, and
        the job can start if it could. CUDA graphs, which leave the expected peak as it is, may have the upper end
        rise within the card, where no cache can make room for it, or where the phase is too large anyway: another
        change has to bring it within. Where the room on the card is not known, none may be higher.
        """
        if self.workload.trains_reward and _offloads_less(self.workload, workload):
            return False
        memory = figures(workload).memory
        affords = partial(self._affords_phase, graphs=_switches_graphs_on(self.workload, workload))
        return len(memory.problems) <= len(self.problems) and all(map(affords, memory.phases()))

    def _affords_phase(self, after: PhaseEstimate, *, graphs: bool) -> bool:
        trained = after.phase is Phase.REWARD and self.workload.trains_reward
        limit = 0 if trained or self.workload.added_models else self.limit_bytes
        before = self.phase(after.phase)
        peak, upper = (0, 0) if before is None else (before.peak_bytes, before.interval[1])
        if after.peak_bytes <= max(limit, peak) and after.interval[1] <= max(limit, upper):
            return True
        may_rise = graphs and limit > 0 and after.phase not in _CACHED
        return may_rise and before is not None and self._stays(before, after)

    def _stays(self, before: PhaseEstimate, after: PhaseEstimate) -> bool:
        """Whether the expected peak stays where it was, beyond the card or so that the phase lacks nothing."""
        beyond = before.peak_bytes > self.capacity_bytes
        lacks = self.missing_bytes(after) > 0 and not beyond
        return not lacks and after.peak_bytes - before.peak_bytes <= SAME_PEAK * self.capacity_bytes

    def lowers(self, workload: Workload, phase: Phase) -> bool:
        """Whether a proposal brings the peak of a phase down."""
        after = figures(workload).memory.phase(phase)
        return after is not None and after.peak_bytes < self.peak_bytes(phase)

    def lowers_much(self, workload: Workload, phase: Phase) -> bool:
        """Whether a proposal takes a tenth at least of what a phase lacks; less is not worth another batch."""
        before, after = self.phase(phase), figures(workload).memory.phase(phase)
        if before is None or after is None:
            return False
        won = before.peak_bytes - after.peak_bytes
        return won > 0 and won >= LEAST_RELIEF * self.missing_bytes(before)

    def relieves(self, workload: Workload, phase: Phase) -> bool:
        """Whether a phase lacks fewer bytes with a proposal, if only at the upper end, and peaks no higher."""
        before, after = self.phase(phase), figures(workload).memory.phase(phase)
        if before is None or after is None:
            return False
        lacks_fewer = self.missing_bytes(after) < self.missing_bytes(before)
        return lacks_fewer and after.peak_bytes <= before.peak_bytes

    def largest(
        self,
        values: Iterable[int],
        propose: Callable[[int], Workload],
        *,
        accept: Callable[[Workload], bool] | None = None,
    ) -> int | None:
        """The largest of ``values`` whose proposal is accepted, None when none is.

        Args:
            values: candidates; what is accepted for one must be accepted for every smaller one,
                as it is when memory grows with the value.
            propose: the workload for a value.
            accept: :meth:`affords` unless told.
        """
        accept = accept or self.affords
        # A range ascends as it is, and may have millions of numbers.
        ordered = values if isinstance(values, range) else sorted(set(values))
        if not ordered or not accept(propose(ordered[0])):  # half of all questions end here
            return None
        low, high = 1, len(ordered)
        while low < high:
            middle = (low + high) // 2
            if accept(propose(ordered[middle])):
                low = middle + 1
            else:
                high = middle
        return ordered[low - 1]

    # -- time ----------------------------------------------------------------------------

    @property
    def step(self) -> Interval:
        """Seconds of the whole step, with their interval."""
        return timing.step_interval(self.time, self.workload.cluster)

    def seconds(self, workload: Workload) -> float:
        """Modelled seconds of a step of another workload."""
        return figures(workload).time.seconds

    def interval(self, time: PhaseTime) -> Interval:
        """Seconds of a phase of this job, with their interval."""
        return timing.phase_interval(time, self.workload.cluster)

    def change(self, workload: Workload) -> StepChange:
        """Seconds that a step of another workload takes more, with what is uncertain of the difference."""
        return timing.change(self.time, figures(workload).time, self.workload.cluster, then=workload.cluster)

    def faster(self, workload: Workload) -> bool:
        """Whether a proposal shortens the step by a gain worth naming, and for certain unless it is guessed."""
        shorter = self.seconds(workload) < self.time.seconds * (1 - LEAST_GAIN)
        return shorter and (self.guesses or self.change(workload).is_gain)

    def slower(self, workload: Workload) -> bool:
        """Whether a proposal lengthens the step by as much, be it certain or not: nobody wants to find out."""
        return self.seconds(workload) > self.time.seconds * (1 + LEAST_GAIN)

    def pays_another_training(self, workload: Workload) -> bool:
        """Whether a proposal that changes the training is affordable and shortens the step by enough to say so.

        Never of a job that lacks memory: first it has to run.
        """
        most = self.time.seconds * (1 - LEAST_GAIN_OF_ANOTHER_TRAINING)
        shorter = self.short() is None and self.seconds(workload) <= most
        return shorter and self.change(workload).is_gain and self.affords(workload)

    def pays(self, workload: Workload) -> bool:
        """Whether a proposal is affordable and faster."""
        return self.faster(workload) and self.affords(workload)


def _offloads_less(before: Workload, after: Workload) -> bool:
    """Whether states of the actor stay on the card that were moved to the host."""
    was, now = before.actor.engine, after.actor.engine
    return (was.param_offload and not now.param_offload) or (
        was.optimizer_offload and not now.optimizer_offload
    )


def _switches_graphs_on(before: Workload, after: Workload) -> bool:
    """Whether the rollout engine comes to replay CUDA graphs, whose pool is small and known from above alone."""
    was, now = before.rollout, after.rollout
    return was is not None and now is not None and now.cuda_graphs and not was.cuda_graphs
