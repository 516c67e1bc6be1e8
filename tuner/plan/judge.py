"""Judges settings: memory first, the phase that most others failed in before the rest, then seconds."""

from collections.abc import Collection

from msgspec import Struct

from tuner.advise.usual_host import may_hold_too_much, may_lack_host
from tuner.memory import PhaseEstimate
from tuner.plan.space import Choice
from tuner.rules.case import CaseFigures
from tuner.timing import seconds_of_passes
from tuner.workload import Phase, Workload

START = "start"  # an engine would not start, or its cache holds no sequence
HOST = "host"  # a node has too little memory, or may have
UNKNOWN = "unknown"
DOUBT = "doubt"  # all peaks are within the card, and something else is not known


class Candidate(Struct, frozen=True, kw_only=True, dict=True):
    """One choice, what the job is with it, and the model's figures for that."""

    choice: Choice
    workload: Workload
    figures: CaseFigures
    overrides: tuple[str, ...] | None = None  # that bring it about; None before they were written

    @property
    def seconds(self) -> float:
        """Seconds of a step."""
        return self.figures.time.seconds

    @property
    def peak_bytes(self) -> int:
        """Bytes of its worst phase."""
        return max(phase.peak_bytes for phase in self.figures.memory.all_phases)


class Judge:
    """Judges the settings of one card."""

    def __init__(self, headroom: float) -> None:
        self._headroom = headroom
        self._hot: list[Phase] = list(Phase)  # the one that failed last comes first
        self._in_passes: dict[Choice, str | None] = {}

    def failing(
        self, workload: Workload, figures: CaseFigures, in_passes: Choice | None = None
    ) -> str | None:
        """The first constraint that a setting fails, a phase by its name; None where it fits for certain.

        Args:
            workload: the job with it.
            figures: of the job.
            in_passes: what decides how much its passes take, where other settings may share that.
        """
        memory, of_passes = figures.memory, {one.phase for one in workload.passes()}
        failing = self._in_passes.get(in_passes, UNKNOWN) if in_passes is not None else UNKNOWN
        if failing == UNKNOWN:
            failing = self._failing_phase(workload, figures, of_passes)
            if in_passes is not None:
                self._in_passes[in_passes] = failing
        if failing is None:
            failing = self._failing_phase(workload, figures, set(Phase) - of_passes)
        if failing is not None:
            return failing
        if memory.problems:
            return HOST if memory.host_is_short else START
        if workload.rollout is not None and figures.rollout.concurrent_sequences <= 0:
            return START
        cluster = workload.cluster  # the host first: most settings that get so far fail there
        if may_hold_too_much(memory.host_terms, cluster.host_memory_bytes, cluster.gpus_per_node):
            return HOST
        return DOUBT if memory.doubts else None  # no phase is beyond the card, as was asked above

    def known_to_fail(self, in_passes: Choice) -> str | None:
        """The pass that lacks memory in all settings that share their passes; None where none is known to."""
        return self._in_passes.get(in_passes)

    @staticmethod
    def seconds(workload: Workload, figures: CaseFigures, least: float) -> float:
        """Seconds of a setting whose memory is not known yet; the least where its cache holds no sequence."""
        idle = workload.rollout is not None and figures.rollout.concurrent_sequences <= 0
        return least if idle else figures.time.seconds

    def _failing_phase(
        self, workload: Workload, figures: CaseFigures, phases: Collection[Phase]
    ) -> str | None:
        """A phase of these that lacks memory, by its name; the one that failed last is asked first."""
        for phase in self._hot:
            estimate = figures.memory.phase(phase) if phase in phases else None
            if estimate is not None and self.missing_bytes(workload, estimate):
                self._hot.remove(phase)
                self._hot.insert(0, phase)
                return phase.value
        return None

    def missing_bytes(self, workload: Workload, phase: PhaseEstimate) -> int:
        """Bytes that a phase lacks: of its peak below the limit, or of its upper end within the card."""
        capacity = workload.cluster.gpu.capacity_bytes
        over = phase.peak_bytes - int(capacity * (1 - self._headroom))
        return max(0, over, phase.interval[1] - capacity)

    def shortage(self, workload: Workload, figures: CaseFigures) -> tuple[int, int, int, int]:
        """How far a setting is from fitting: all zero where it fits for certain."""
        memory = figures.memory
        over = [self.missing_bytes(workload, phase) for phase in memory.all_phases]
        idle = workload.rollout is not None and figures.rollout.concurrent_sequences <= 0
        problems = len(memory.problems) + idle
        doubts = 0
        if not problems and not any(over):
            lacks_host = may_lack_host(memory.estimate, workload.cluster.gpus_per_node)
            doubts = lacks_host + (not memory.estimate.fits_for_certain())
        return max(over, default=0), problems, doubts, sum(over)


def least_seconds(workload: Workload) -> float:
    """Seconds that a step takes at least: those of its passes, before generation is simulated."""
    return seconds_of_passes(workload)
