"""Puts the phases together: who is resident when, and the moments of each pass on top."""

from tuner import batching
from tuner.evidence import Evidence
from tuner.memory.host import host_bytes
from tuner.memory.pass_terms import PassInput
from tuner.memory.passes import pass_moments
from tuner.memory.residents import Residents, States
from tuner.memory.rollout import RolloutMemory, rollout_memory
from tuner.memory.terms import Estimate, Item, Moment, PhaseEstimate, Term
from tuner.memory.weight_sync import sync_bytes
from tuner.model_shape import ModelShape
from tuner.workload import Engine, HeadKind, OutputHead, Pass, Phase, Reference, Workload

VALUE_HEAD = OutputHead(kind=HeadKind.VALUE)


class _Step:
    """One step of a workload; builds the phases in order."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.residents = Residents.of(workload)
        self.rollout: RolloutMemory = rollout_memory(workload)

    def asleep(self) -> tuple[Term, ...]:
        """The rollout engine while the trainer works."""
        if not self.workload.rollout.colocated:
            return ()
        return (
            Term(
                item=Item.ENGINE,
                name="engine_asleep",
                bytes=self.rollout.asleep_bytes,
                evidence=Evidence.HEURISTIC,
                formula="graphs + context",
            ),
        )

    def awake(self) -> tuple[Term, ...]:
        """The rollout engine while it generates: pool without cache, and the cache."""
        cache = max(0, self.rollout.kv_bytes)
        rest = Term(
            item=Item.ENGINE,
            name="engine",
            bytes=self.rollout.pool_bytes - cache,
            evidence=Evidence.MODELLED,
            formula="weights + activations + graphs + context",
        )
        return (
            rest,
            Term(
                item=Item.KV_CACHE,
                name="kv_cache",
                bytes=cache,
                evidence=Evidence.MODELLED,
                formula="u M - weights - activations - context",
            ),
        )

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
        )
        around = (*resident, *self.asleep(), self.residents.context)
        return _phase(phase, around, pass_moments(given, training=training))

    def phases(self) -> tuple[PhaseEstimate, ...]:
        workload = self.workload
        actor, critic = workload.actor, workload.critic
        found = [self.rollout_phase(Phase.ROLLOUT)]
        if actor.log_prob is not None:
            resident = (*self.residents.actor.forward, *self.residents.idle_critic)
            found.append(
                self.pass_phase(
                    Phase.OLD_LOG_PROB, workload.model, actor.engine, actor.head, actor.log_prob, resident
                )
            )
        if workload.reference is not None:
            found.append(self.reference_phase(workload.reference))
        if critic is not None and self.residents.critic is not None:
            resident = (*self.residents.critic.forward, *self.residents.idle_actor)
            found.append(
                self.pass_phase(
                    Phase.VALUES, critic.model, critic.engine, VALUE_HEAD, critic.values, resident
                )
            )
            resident = (*self.residents.critic.training, *self.residents.idle_actor)
            found.append(
                self.pass_phase(
                    Phase.UPDATE_CRITIC, critic.model, critic.engine, VALUE_HEAD, critic.update, resident
                )
            )
        resident = (*self.residents.actor.training, *self.residents.idle_critic)
        found.append(
            self.pass_phase(
                Phase.UPDATE_ACTOR, workload.model, actor.engine, actor.head, actor.update, resident
            )
        )
        found.append(self.sync_phase())
        if workload.rollout.colocated:
            found.append(self.rollout_phase(Phase.WAKE_UP))
        return tuple(found)

    def rollout_phase(self, phase: Phase) -> PhaseEstimate:
        resident = self.residents.idle if self.workload.rollout.colocated else ()
        name = "generation" if phase is Phase.ROLLOUT else "cache_mapped"
        return _phase(phase, resident, (Moment(name=name, terms=self.awake()),))

    def reference_phase(self, reference: Reference) -> PhaseEstimate:
        workload = self.workload
        resident = (*self.residents.idle_actor, *self.residents.idle_critic)
        if not reference.separate:
            resident = (*self.residents.actor.forward, *self.residents.idle_critic)
        elif not (reference.engine.streamed_offload or reference.engine.param_offload):
            resident = (*resident, States.of(workload.model, reference.engine, "reference").parameters)
        return self.pass_phase(
            Phase.REF_LOG_PROB, workload.model, reference.engine, reference.head, reference.log_prob, resident
        )

    def sync_phase(self) -> PhaseEstimate:
        workload = self.workload
        weights = Term(
            item=Item.ENGINE,
            name="engine_weights",
            bytes=self.rollout.weight_bytes if workload.rollout.frees_memory else 0,
            formula="b N / T_p",
        )
        transfer = Term(
            item=Item.SYNC,
            name="weight_sync",
            bytes=sync_bytes(workload.model, workload.actor.engine, workload.sync),
            formula="B + b_s V H",
        )
        terms = (weights, transfer) if workload.rollout.colocated else (transfer,)
        around = (
            *self.residents.actor.forward,
            *self.residents.idle_critic,
            *self.asleep(),
            self.residents.context,
        )
        return _phase(Phase.UPDATE_WEIGHTS, around, (Moment(name="transfer", terms=terms),))


def _phase(phase: Phase, around: tuple[Term, ...], moments: tuple[Moment, ...]) -> PhaseEstimate:
    resident = tuple(term for term in around if term.bytes)
    return PhaseEstimate(
        phase=phase,
        moments=tuple(Moment(name=moment.name, terms=(*resident, *moment.terms)) for moment in moments),
    )


def _problems(workload: Workload, rollout: RolloutMemory) -> tuple[str, ...]:
    """Why the rollout engine could not even start."""
    if rollout.kv_bytes <= 0:
        return ("the rollout engine's share of memory holds its weights and activations, but no KV cache",)
    if rollout.concurrent_sequences < 1:
        return ("the KV cache is too small for one sequence of full length",)
    return ()


def estimate(workload: Workload) -> Estimate:
    """Bytes per phase, moment and term on the fullest GPU of a job.

    Sequences are taken at their maximum length: a job must fit when responses have grown.
    """
    step = _Step(workload)
    return Estimate(
        phases=step.phases(),
        capacity_bytes=workload.cluster.gpu.memory_bytes,
        host_bytes=host_bytes(workload),
        problems=_problems(workload, step.rollout),
    )
