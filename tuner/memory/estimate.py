"""Puts the phases together: who is resident when, and the moments of each pass on top."""

from functools import cached_property

from tuner import batching
from tuner.memory import megatron_stages
from tuner.memory.engine_memory import RolloutMemory, rollout_memory, start_doubt, start_problems
from tuner.memory.engine_terms import asleep_terms, awake_terms, waking_terms
from tuner.memory.freed_blocks import freed_blocks
from tuner.memory.host import host_terms
from tuner.memory.pass_terms import PassInput
from tuner.memory.passes import pass_moments
from tuner.memory.residents import Residents, States
from tuner.memory.terms import Estimate, Moment, PhaseEstimate, Term
from tuner.memory.weight_sync import sync_moments
from tuner.model_shape import ModelShape
from tuner.workload import Critic, Engine, HeadKind, OutputHead, Pass, Phase, Workload

VALUE_HEAD = OutputHead(kind=HeadKind.VALUE)


class _Step:
    """One step of a workload; builds the phases in order."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.residents = Residents.of(workload)
        self.rollout: RolloutMemory = rollout_memory(workload)

    @cached_property
    def awake(self) -> tuple[Term, ...]:
        """The rollout engine while it generates."""
        return awake_terms(self.workload, self.rollout)

    @cached_property
    def asleep(self) -> tuple[Term, ...]:
        """The rollout engine while the trainer works."""
        return asleep_terms(self.workload, self.rollout) if self.workload.rollout.colocated else ()

    def pass_phase(
        self,
        phase: Phase,
        model: ModelShape,
        engine: Engine,
        head: OutputHead,
        one_pass: Pass,
        resident: tuple[Term, ...],
    ) -> PhaseEstimate:
        training = phase in (Phase.UPDATE_ACTOR, Phase.UPDATE_CRITIC)
        batch = self.workload.batch
        given = PassInput(
            model=model,
            engine=engine,
            head=head,
            tokens=batching.micro_batch_tokens(batch, engine, one_pass, optimizer_step=training),
            entropy=one_pass.entropy,
            micro_batches=batching.micro_batches(batch, engine, one_pass, optimizer_step=True)
            if training
            else 1,
            step_tokens=batching.step_tokens(batch, engine) if training else None,
        )
        around = (*resident, *self.asleep, *self.residents.process)
        return _phase(phase, around, pass_moments(given, training=training))

    def phases(self) -> tuple[PhaseEstimate, ...]:
        workload = self.workload
        found = [self.rollout_phase(Phase.ROLLOUT), *self.actor_forward()]
        if workload.critic is not None and self.residents.critic is not None:
            found += self.critic_phases(workload.critic, self.residents.critic)
        actor, residents = workload.actor, self.residents
        resident = (*residents.actor.training, *residents.idle_critic, *residents.idle_reference)
        found.append(
            self.pass_phase(
                Phase.UPDATE_ACTOR, workload.model, actor.engine, actor.head, actor.update, resident
            )
        )
        found.append(self.sync_phase(found[-1]))
        if workload.rollout.colocated:
            found.append(self.rollout_phase(Phase.WAKE_UP))
        return tuple(found)

    def actor_forward(self) -> list[PhaseEstimate]:
        """Log-probabilities of the actor and of the reference."""
        workload, residents = self.workload, self.residents
        actor, reference = workload.actor, workload.reference
        found = []
        if actor.log_prob is not None:
            resident = (*residents.actor.forward, *residents.idle_critic, *residents.idle_reference)
            found.append(
                self.pass_phase(
                    Phase.OLD_LOG_PROB, workload.model, actor.engine, actor.head, actor.log_prob, resident
                )
            )
        if reference is not None:
            own = residents.actor.forward
            if residents.reference is not None:
                own = (residents.reference.parameters, *residents.idle_actor, *self.left_by_actor())
            found.append(
                self.pass_phase(
                    Phase.REF_LOG_PROB,
                    workload.model,
                    reference.engine,
                    reference.head,
                    reference.log_prob,
                    (*own, *residents.idle_critic),
                )
            )
        return found

    def critic_phases(self, critic: Critic, states: States) -> list[PhaseEstimate]:
        """The critic's values and its update."""
        others = (*self.residents.idle_actor, *self.left_by_actor(), *self.residents.idle_reference)
        return [
            self.pass_phase(phase, critic.model, critic.engine, VALUE_HEAD, one_pass, (*resident, *others))
            for phase, one_pass, resident in (
                (Phase.VALUES, critic.values, states.forward),
                (Phase.UPDATE_CRITIC, critic.update, states.training),
            )
        ]

    def left_by_actor(self) -> tuple[Term, ...]:
        """What the actor's log-probabilities left gathered, until its update frees it."""
        workload = self.workload
        ran = workload.actor.log_prob is not None or (
            workload.reference is not None and not workload.reference.separate
        )
        return self.residents.actor.after_forward if ran else ()

    def rollout_phase(self, phase: Phase) -> PhaseEstimate:
        resident = self.residents.idle if self.workload.rollout.colocated else ()
        actor = self.residents.actor
        if self.workload.sync.keeps_loaded and actor.parameters not in actor.idle:
            resident = (*resident, actor.parameters)
        name = "generation" if phase is Phase.ROLLOUT else "cache_mapped"
        return _phase(phase, resident, (Moment(name=name, terms=self.awake),))

    def sync_phase(self, update: PhaseEstimate) -> PhaseEstimate:
        workload, residents = self.workload, self.residents
        actor = residents.actor
        others = (*residents.idle_critic, *residents.idle_reference)
        moments = list(sync_moments(workload, self.rollout, actor))
        if workload.rollout.colocated and not workload.sync.empties_cache_first:
            kept = (*actor.forward, *others)
            back = (freed_blocks(update, kept), *waking_terms(workload, self.rollout))
            moments.insert(0, Moment(name="weights_back", terms=(*actor.kept_parameters, *back)))
        states = tuple(term for term in actor.forward if term is not actor.parameters)
        around = (*states, *others, *self.asleep, *residents.process)
        return _phase(Phase.UPDATE_WEIGHTS, around, tuple(moments))


def _phase(phase: Phase, around: tuple[Term, ...], moments: tuple[Moment, ...]) -> PhaseEstimate:
    resident = tuple(term for term in around if term.bytes)
    return PhaseEstimate(
        phase=phase,
        moments=tuple(Moment(name=moment.name, terms=(*resident, *moment.terms)) for moment in moments),
    )


def _over_stages(stages: list[tuple[PhaseEstimate, ...]]) -> tuple[PhaseEstimate, ...]:
    """The phases with the moments of all pipeline stages that were looked at."""
    if len(stages) == 1:
        return stages[0]
    return tuple(
        PhaseEstimate(
            phase=seen[0].phase, moments=tuple(moment for estimate in seen for moment in estimate.moments)
        )
        for seen in zip(*stages, strict=True)
    )


def _problems(workload: Workload, host: int) -> tuple[str, ...]:
    """Why the job could not run, however much memory its GPUs had to spare."""
    found = list(start_problems(workload))
    limit = workload.cluster.host_memory_bytes
    if limit is not None and host > limit:
        found.append("offloaded states and copies take more host memory than a node has")
    return tuple(found)


def estimate(workload: Workload) -> Estimate:
    """Bytes per phase, moment and term on the fullest GPU of a job.

    Sequences are taken at their maximum length: a job must fit when responses have grown.
    """
    steps = [_Step(seen) for seen in megatron_stages.candidates(workload)]
    on_host, doubt = host_terms(workload), start_doubt(workload)
    host = sum(term.bytes for term in on_host)
    return Estimate(
        phases=_over_stages([step.phases() for step in steps]),
        capacity_bytes=workload.cluster.gpu.capacity_bytes,
        host_bytes=host,
        host_terms=on_host,
        host_capacity_bytes=workload.cluster.host_memory_bytes,
        problems=_problems(workload, host),
        doubts=() if doubt is None else (doubt,),
    )
