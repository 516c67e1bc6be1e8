"""Puts the phases together: who is resident when, and the moments of each pass on top."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial

from tuner import batching
from tuner.memory.host import host_terms
from tuner.memory.ledger.terms import Estimate, Moment, PhaseEstimate, Term
from tuner.memory.megatron import stages
from tuner.memory.micro_batch import PassInput
from tuner.memory.passes import pass_moments
from tuner.memory.process.freed_blocks import freed_blocks
from tuner.memory.residents import Residents, States
from tuner.memory.rollout.capacity import start_doubt, start_problems
from tuner.memory.rollout.terms import asleep_terms, awake_terms, waking_terms
from tuner.memory.weight_sync import sync_moments
from tuner.workload import Phase, Role, StepPass, Workload


class _Step:
    """One step of a workload; makes its phases."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.residents = Residents.of(workload)

    @cached_property
    def awake(self) -> tuple[Term, ...]:
        """The rollout engine while it generates."""
        return awake_terms(self.workload)

    @cached_property
    def asleep(self) -> tuple[Term, ...]:
        """The rollout engine while the trainer works."""
        return asleep_terms(self.workload) if self.workload.rollout.colocated else ()

    @cached_property
    def makers(self) -> dict[Phase, Callable[[], PhaseEstimate]]:
        """What makes each phase that the step has, in order."""
        workload = self.workload
        makers: dict[Phase, Callable[[], PhaseEstimate]] = {
            Phase.ROLLOUT: partial(self.rollout_phase, Phase.ROLLOUT),
            **{step_pass.phase: partial(self.pass_phase, step_pass) for step_pass in workload.passes()},
            Phase.UPDATE_ACTOR: lambda: self.update_actor,
            Phase.UPDATE_WEIGHTS: self.update_weights,
        }
        if workload.rollout.colocated:
            makers[Phase.WAKE_UP] = partial(self.rollout_phase, Phase.WAKE_UP)
        return makers

    def pass_phase(self, step_pass: StepPass) -> PhaseEstimate:
        """One pass over a model, beside all that is resident then."""
        batch, training = self.workload.batch, step_pass.training
        given = PassInput(
            model=step_pass.model,
            engine=step_pass.engine,
            head=step_pass.head,
            tokens=batching.micro_batch_tokens(batch, step_pass),
            entropy=step_pass.entropy,
            micro_batches=batching.micro_batches(batch, step_pass) if training else 1,
            step_tokens=batching.step_tokens(batch, step_pass.engine) if training else None,
        )
        around = (*self.around_pass(step_pass), *self.asleep, *self.residents.process)
        return _phase(step_pass.phase, around, pass_moments(given, training=training))

    def around_pass(self, step_pass: StepPass) -> tuple[Term, ...]:
        """The states that a pass works with, and what the engines of the other models hold meanwhile."""
        residents = self.residents
        if step_pass.role is Role.ACTOR:
            working = _working(residents.actor, step_pass)
            return (*working, *residents.idle_critic, *residents.idle_reference)
        if step_pass.role is Role.CRITIC:
            working = _working(residents.critic, step_pass)
            return (*working, *residents.idle_actor, *self.left_by_actor(), *residents.idle_reference)
        # Without an engine of its own the reference is the actor, its adapters switched off.
        working = residents.actor.forward
        if residents.reference is not None:
            working = (residents.reference.parameters, *residents.idle_actor, *self.left_by_actor())
        return (*working, *residents.idle_critic)

    @cached_property
    def update_actor(self) -> PhaseEstimate:
        """The actor's training."""
        return self.pass_phase(self.workload.actor_update)

    def left_by_actor(self) -> tuple[Term, ...]:
        """What the actor's log-probabilities left gathered, until its update frees it."""
        workload = self.workload
        ran = workload.actor.log_prob is not None or (
            workload.reference is not None and not workload.reference.separate
        )
        return self.residents.actor.after_forward if ran else ()

    def rollout_phase(self, phase: Phase) -> PhaseEstimate:
        """The rollout engine awake beside an idle trainer."""
        resident = self.residents.idle if self.workload.rollout.colocated else ()
        actor = self.residents.actor
        if self.workload.sync.keeps_loaded and actor.parameters not in actor.idle:
            resident = (*resident, actor.parameters)
        name = "generation" if phase is Phase.ROLLOUT else "cache_mapped"
        return _phase(phase, resident, (Moment(name=name, terms=self.awake),))

    def update_weights(self) -> PhaseEstimate:
        """The weight sync."""
        workload, residents = self.workload, self.residents
        actor = residents.actor
        others = (*residents.idle_critic, *residents.idle_reference)
        moments = list(sync_moments(workload, actor))
        if workload.rollout.colocated and not workload.sync.empties_cache_first:
            kept = (*actor.forward, *others)
            back = (freed_blocks(self.update_actor, kept), *waking_terms(workload))
            moments.insert(0, Moment(name="weights_back", terms=(*actor.kept_parameters, *back)))
        states = tuple(term for term in actor.forward if term is not actor.parameters)
        around = (*states, *others, *self.asleep, *residents.process)
        return _phase(Phase.UPDATE_WEIGHTS, around, tuple(moments))


def _working(states: States | None, step_pass: StepPass) -> tuple[Term, ...]:
    """What an engine has on the card while it runs a pass."""
    if states is None:
        return ()
    return states.training if step_pass.training else states.forward


def _phase(phase: Phase, around: tuple[Term, ...], moments: tuple[Moment, ...]) -> PhaseEstimate:
    resident = Moment(name="resident", terms=tuple([term for term in around if term.bytes]))
    return PhaseEstimate(phase=phase, moments=tuple([moment.beside(resident) for moment in moments]))


def _over_stages(seen: Sequence[PhaseEstimate]) -> PhaseEstimate:
    """A phase with the moments of all pipeline stages that were looked at."""
    if len(seen) == 1:
        return seen[0]
    return PhaseEstimate(
        phase=seen[0].phase, moments=tuple(moment for estimate in seen for moment in estimate.moments)
    )


class StepMemory:
    """The estimate of a job, each part of it made when it is first asked for.

    Advice compares hundreds of workloads, many of which one phase or a missing start rules out.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._made: dict[Phase, PhaseEstimate] = {}

    @cached_property
    def _steps(self) -> list[_Step]:
        return [_Step(seen) for seen in stages.candidates(self._workload)]

    def phase(self, phase: Phase) -> PhaseEstimate | None:
        """The estimate of one phase, None when the step does not have it."""
        if phase not in self._made:
            if phase not in self._steps[0].makers:
                return None
            self._made[phase] = _over_stages([step.makers[phase]() for step in self._steps])
        return self._made[phase]

    def phases(self) -> Iterator[PhaseEstimate]:
        """The phases in order, one after the other."""
        return (found for phase in self._steps[0].makers if (found := self.phase(phase)) is not None)

    @cached_property
    def host_terms(self) -> tuple[Term, ...]:
        """What the host memory of a node holds."""
        return host_terms(self._workload)

    @property
    def host_bytes(self) -> int:
        """Host memory per node."""
        return sum(term.bytes for term in self.host_terms)

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Why the job could not run, however much memory its GPUs had to spare."""
        found = list(start_problems(self._workload))
        limit = self._workload.cluster.host_memory_bytes
        if limit is not None and self.host_bytes > limit:
            found.append("offloaded states and copies take more host memory than a node has")
        return tuple(found)

    @cached_property
    def whole(self) -> Estimate:
        """All of it."""
        cluster, doubt = self._workload.cluster, start_doubt(self._workload)
        return Estimate(
            phases=tuple(self.phases()),
            capacity_bytes=cluster.gpu.capacity_bytes,
            host_bytes=self.host_bytes,
            host_terms=self.host_terms,
            host_capacity_bytes=cluster.host_memory_bytes,
            problems=self.problems,
            doubts=() if doubt is None else (doubt,),
        )


def estimate(workload: Workload) -> Estimate:
    """Bytes per phase, moment and term on the fullest GPU of a job.

    Sequences are taken at their maximum length: a job must fit when responses have grown.
    """
    return StepMemory(workload).whole
