"""Puts the phases together: who is resident when, and the moments of each pass on top."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from tuner import batching
from tuner.language import _
from tuner.memory.batch.micro_batch import PassInput, routes_of
from tuner.memory.batch.padded_response import padded_response
from tuner.memory.batch.padding import padding_doubt
from tuner.memory.fsdp.kept_inputs import kept_inputs
from tuner.memory.fsdp.tensor_slice import engine_of_a_rank, model_of_a_rank
from tuner.memory.host.node import host_terms
from tuner.memory.ledger.terms import Estimate, Moment, PhaseEstimate, Term
from tuner.memory.megatron import stages
from tuner.memory.passes import as_counted, pass_moments, with_upper_ends
from tuner.memory.process.constant import Constant
from tuner.memory.process.freed_blocks import freed_blocks, with_blocks_before
from tuner.memory.residents import Residents, States
from tuner.memory.rollout.capacity import cache_share, start_doubt, start_problems
from tuner.memory.rollout.services import services_at_rest, services_judging
from tuner.memory.rollout.terms import asleep_terms, awake_terms, waking_terms
from tuner.memory.saving import save_doubt, save_moments
from tuner.memory.weight_sync.carrier import receive_moment, receiver_process
from tuner.memory.weight_sync.transfer import sync_moments
from tuner.workload import Actor, Backend, Batch, Phase, Role, StepPass, Workload


class _Step:
    """One step of a job, whatever its passes are; makes its phases with the passes that it is given.

    All that is beside a pass, and every other phase, is the same for all jobs that differ in passes only.
    """

    def __init__(self, at_rest: Workload) -> None:
        self.workload = at_rest
        self.residents = Residents.of(at_rest)
        self._made: dict[tuple[Phase, StepPass | None], PhaseEstimate] = {}
        self._residents_of: dict[tuple[Role, bool], Moment] = {}

    @cached_property
    def cache(self) -> Term | None:
        """The KV cache of the rollout engine; None where its fraction leaves none."""
        return cache_share(self.workload).cache_term

    @cached_property
    def awake(self) -> tuple[Term, ...]:
        """The rollout engine while it generates; nothing in a job that does not."""
        return () if self.workload.rollout is None else awake_terms(self.workload, self.cache)

    @cached_property
    def asleep(self) -> tuple[Term, ...]:
        """The rollout engine while the trainer works."""
        rollout = self.workload.rollout
        if rollout is None or not rollout.colocated:
            return ()
        return asleep_terms(self.workload, self.cache if rollout.keeps_cache else None)

    @cached_property
    def services(self) -> tuple[Term, ...]:
        """The inference engines of services while they have nothing to judge."""
        return services_at_rest(self.workload)

    @cached_property
    def around(self) -> tuple[Term, ...]:
        """What is on the card beside the trainer's models, while one of them works."""
        return (*self.asleep, *self.services, *self.residents.process)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that the step has, in order."""
        workload = self.workload
        if workload.unmodelled_engine:
            return self._phases_of_engines
        judging_phases = (Phase.REWARD,) if services_judging(workload) else ()
        passes = (step_pass.phase for step_pass in workload.passes())
        saved = (Phase.SAVE_CHECKPOINT,) if workload.saves else ()
        if workload.rollout is None:
            return (*passes, *saved)
        handing = () if workload.rollout.is_trainer else (Phase.UPDATE_WEIGHTS,)
        waking = (Phase.WAKE_UP,) if handing and workload.rollout.colocated else ()
        if workload.validates_only:
            return (Phase.ROLLOUT, *judging_phases, *handing, *waking)
        phases = (Phase.ROLLOUT, *judging_phases, *passes, *saved, *handing, *waking)
        return tuple(dict.fromkeys(phases))

    @property
    def _phases_of_engines(self) -> tuple[Phase, ...]:
        """The phases in which the trainer is idle: all that is known where its own engine is not modelled."""
        rollout = self.workload.rollout
        if rollout is None:
            return ()
        served = services_judging(self.workload) and self.workload.scoring is None
        waking = (Phase.WAKE_UP,) if rollout.colocated else ()
        return (Phase.ROLLOUT, *((Phase.REWARD,) if served else ()), *waking)

    def phase(self, phase: Phase, passes: Mapping[Phase, StepPass]) -> PhaseEstimate:
        """Estimates a phase in a job with these passes; the weight sync follows the actor's training."""
        step_pass = passes.get(Phase.UPDATE_ACTOR if phase is Phase.UPDATE_WEIGHTS else phase)
        made = self._made.get((phase, step_pass))
        if made is None:
            made = self._made[phase, step_pass] = self._make(phase, step_pass)
        return made

    def _make(self, phase: Phase, step_pass: StepPass | None) -> PhaseEstimate:
        if step_pass is not None:
            return (
                self.update_weights(step_pass)
                if phase is Phase.UPDATE_WEIGHTS
                else self.pass_phase(step_pass)
            )
        if phase is Phase.REWARD:
            return self.reward_phase()
        return self.save_checkpoint() if phase is Phase.SAVE_CHECKPOINT else self.rollout_phase(phase)

    def pass_phase(
        self, step_pass: StepPass, most_tokens: int | None = None, tokens: int | None = None
    ) -> PhaseEstimate:
        """One pass over a model, beside all that is resident then.

        Args:
            step_pass: the pass.
            most_tokens: of a micro-batch at the upper ends; None: as its sequences are likely to fill it.
            tokens: of its largest micro-batch; None: as many as it must have room for.
        """
        workload = self.workload
        moments, input_terms = _moments_of(step_pass, workload.batch, workload.actor, most_tokens, tokens)
        if input_terms:
            around = (*self.around_pass(step_pass), *input_terms, *self.around)
            return _phase(step_pass.phase, around, moments)
        return PhaseEstimate(phase=step_pass.phase, own=moments, resident=self._resident_beside(step_pass))

    def _resident_beside(self, step_pass: StepPass) -> Moment:
        """What stays on the card in a pass: the same for all passes over a model in one direction."""
        kind = step_pass.role, step_pass.training
        resident = self._residents_of.get(kind)
        if resident is None:
            resident = self._residents_of[kind] = _resident((*self.around_pass(step_pass), *self.around))
        return resident

    def around_pass(self, step_pass: StepPass) -> tuple[Term, ...]:
        """The states that a pass works with, and what the engines of the other models hold meanwhile."""
        residents = self.residents
        if step_pass.role is Role.ACTOR:
            working = _working(residents.actor, step_pass)
            return (*working, *residents.idle_critic, *residents.frozen)
        if step_pass.role is Role.CRITIC:
            working = _working(residents.critic, step_pass)
            return (*working, *residents.idle_actor, *self.left_by_actor(), *residents.frozen)
        if step_pass.role is Role.REWARD and residents.reward is not None:
            # The actor's update was the last pass before, so that nothing of it is left gathered.
            idle_states = (*residents.idle_actor, *residents.idle_critic, *residents.idle_reference)
            return (residents.reward.parameters, *idle_states, *self.loaded_for_rollout())
        # Without an engine of its own the reference is the actor, its adapters switched off.
        working = residents.actor.forward
        if residents.reference is not None:
            idle = residents.idle_actor
            if self.workload.reference is not None and self.workload.reference.takes_place:
                idle = tuple(term for term in idle if term is not residents.actor.parameters)
            working = (*_weights(residents.reference), *idle, *self.left_by_actor())
        return (*working, *residents.idle_critic, *residents.idle_reward)

    def left_by_actor(self) -> tuple[Term, ...]:
        """What the actor's log-probabilities left gathered, until its update frees it."""
        workload = self.workload
        ran = workload.actor.log_prob is not None or (
            workload.reference is not None and not workload.reference.separate
        )
        return self.residents.actor.after_forward if ran else ()

    def loaded_for_rollout(self) -> tuple[Term, ...]:
        """Offloaded weights that the weight sync loaded and left on the card, until the actor's next pass."""
        actor = self.residents.actor
        stay = self.workload.weight_sync.keeps_loaded and actor.parameters not in actor.idle
        return (actor.parameters,) if stay else ()

    def rollout_phase(self, phase: Phase) -> PhaseEstimate:
        """The rollout engine awake beside an idle trainer, or the actor that generates itself."""
        if self.workload.generator.is_trainer:
            residents = self.residents
            other_states = (*residents.idle_critic, *residents.frozen, *self.services)
            generation = Moment(name="generation", terms=self.awake)
            return _phase(phase, (*residents.actor.forward, *other_states), (generation,))
        idle = (*self.residents.idle, *self.services, *self.loaded_for_rollout())
        resident = idle if self.workload.generator.colocated else receiver_process(self.workload)
        name = "generation" if phase is Phase.ROLLOUT else "cache_mapped"
        return _phase(phase, resident, (Moment(name=name, terms=self.awake),))

    def save_checkpoint(self) -> PhaseEstimate:
        """The models that are trained, written one after the other while the rollout engine sleeps."""
        workload, residents = self.workload, self.residents
        actor, critic = workload.actor, workload.critic
        around = (*residents.frozen, *self.around)
        moments: list[Moment] = []
        if actor.saving is not None:
            save_points = save_moments(workload.model, residents.actor, actor.saving, "actor")
            moments += [moment.with_residents(_resident(residents.idle_critic)) for moment in save_points]
        if critic is not None and critic.saving is not None and residents.critic is not None:
            save_points = save_moments(critic.model, residents.critic, critic.saving, "critic")
            moments += [moment.with_residents(_resident(residents.idle_actor)) for moment in save_points]
        return _phase(Phase.SAVE_CHECKPOINT, around, tuple(moments))

    def reward_phase(self) -> PhaseEstimate:
        """The engine of a reward model awake beside an idle trainer and a rollout engine that sleeps."""
        resident = (*self.residents.idle, *self.asleep)
        scoring = Moment(name="scoring", terms=services_judging(self.workload))
        return _phase(Phase.REWARD, resident, (scoring,))

    def update_weights(self, update: StepPass) -> PhaseEstimate:
        """The weight sync, which follows the actor's training."""
        workload, residents = self.workload, self.residents
        actor = residents.actor
        frozen_states = (*residents.idle_critic, *residents.frozen)
        moments = list(sync_moments(workload, actor))
        if workload.generator.colocated and not workload.weight_sync.empties_cache_first:
            back = waking_terms(workload, self.cache)
            if update.engine.takes_steps:
                trained = self.phase(update.phase, {update.phase: update})
                stay, pages = (*actor.forward, *frozen_states), workload.weight_sync.maps_pages
                back = (freed_blocks(trained, stay, pages=pages), *back)
            moments.insert(0, Moment(name="weights_back", terms=(*actor.kept_parameters, *back)))
        states = tuple(term for term in actor.forward if term is not actor.parameters)
        around = (*states, *frozen_states, *self.around)
        phase = _phase(Phase.UPDATE_WEIGHTS, around, tuple(moments))
        if workload.weight_sync.carrier is None:
            return phase
        received = receive_moment(workload, self.awake)
        return PhaseEstimate(phase=phase.phase, own=(*phase.moments, received))


@lru_cache(maxsize=1024)  # whatever is beside a pass, its own moments are the same
def _moments_of(
    step_pass: StepPass, batch: Batch, actor: Actor, most_tokens: int | None, tokens: int | None
) -> tuple[tuple[Moment, ...], tuple[Term, ...]]:
    """The moments of a pass, and what its micro-batches leave for the rest of it."""
    training = step_pass.training
    engine = batching.attending_engine(batch, step_pass)
    pass_input = PassInput(
        model=model_of_a_rank(step_pass.model, engine),
        engine=engine_of_a_rank(engine),
        head=step_pass.head,
        tokens=batching.micro_batch_tokens(batch, step_pass) if tokens is None else tokens,
        entropy=step_pass.entropy,
        micro_batches=batching.micro_batches(batch, step_pass) if training else 1,
        step_tokens=batching.step_tokens(batch, step_pass.engine) if training else None,
        patches=_patches(batch, step_pass),
        squares=step_pass.settings.squares,
        response=padded_response(step_pass.head, batch),
        row_tokens=None if step_pass.engine.packed else batch.sequence_tokens,
        routes=routes_of(step_pass, actor, batch),
    )
    counted = as_counted(pass_input)
    moments = with_upper_ends(
        pass_moments(counted, training=training),
        counted,
        most_tokens=most_tokens or batching.most_micro_batch_tokens(batch, step_pass),
        training=training,
    )
    return moments, kept_inputs(pass_input) if training else ()


@lru_cache(maxsize=256)  # jobs with another rollout engine have the same
def _by_phase(passes: tuple[StepPass, ...]) -> Mapping[Phase, StepPass]:
    return {step_pass.phase: step_pass for step_pass in passes}


_step = lru_cache(maxsize=128)(_Step)  # a proposal changes a pass, or what is beside all of them


def _patches(batch: Batch, step_pass: StepPass) -> Constant | None:
    """Patches that a vision tower sees in a micro-batch; None without, and under Megatron."""
    least, expected, most = batching.micro_batch_patches(batch, step_pass)
    if not expected or step_pass.engine.backend is Backend.MEGATRON:
        return None
    return Constant(low=least, typical=expected, high=most, source="batching.micro_batch_patches")


def _working(states: States | None, step_pass: StepPass) -> tuple[Term, ...]:
    """What an engine has on the card while it runs a pass."""
    if states is None:
        return ()
    return states.training if step_pass.training else states.forward


def _weights(states: States) -> tuple[Term, ...]:
    """The weights of a model that is not trained."""
    return (states.parameters, *states.module)


def _phase(phase: Phase, around: tuple[Term, ...], moments: tuple[Moment, ...]) -> PhaseEstimate:
    return PhaseEstimate(phase=phase, own=moments, resident=_resident(around))


def _resident(terms: tuple[Term, ...]) -> Moment:
    """What stays on the card whatever a moment adds."""
    return Moment(name="resident", terms=tuple([term for term in terms if term.bytes or term.high]))


def _over_stages(estimates: Sequence[PhaseEstimate]) -> PhaseEstimate:
    """A phase with the moments of all pipeline stages that were looked at."""
    if len(estimates) == 1:
        return estimates[0]
    return PhaseEstimate(
        phase=estimates[0].phase, own=tuple(moment for estimate in estimates for moment in estimate.moments)
    )


class StepMemory:
    """The estimate of a job, each part of it made when it is first asked for.

    Advice compares hundreds of workloads, many of which one phase or a missing start rules out.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._made: dict[Phase, PhaseEstimate] = {}

    @cached_property
    def _steps(self) -> list[tuple[_Step, Mapping[Phase, StepPass]]]:
        """The step as seen from each pipeline stage that can be the fullest, and its passes."""
        steps = map(_step, stages.candidates(self._workload.at_rest))
        return list(zip(steps, map(_by_phase, stages.passes_of_candidates(self._workload)), strict=True))

    def phase(self, phase: Phase) -> PhaseEstimate | None:
        """The estimate of one phase, None when the step does not have it."""
        made = self._made.get(phase)
        if made is None and phase in self._steps[0][0].phases:
            made = _over_stages([step.phase(phase, passes) for step, passes in self._steps])
            self._made[phase] = made
        return made

    def bound_bytes(self, phase: Phase) -> int:
        """The most bytes of a pass, whatever the lengths of its sequences are."""
        batch = self._workload.batch
        of_stages = [(step, passes[phase]) for step, passes in self._steps]
        bounds = [
            step.pass_phase(one, batching.micro_batch_tokens_bound(batch, one)) for step, one in of_stages
        ]
        return max(bound.interval[1] for bound in bounds)

    def with_micro_batch(self, phase: Phase, tokens: int) -> PhaseEstimate:
        """A pass whose largest micro-batch has so many tokens on one GPU; full ones are the upper ends."""
        of_stages = [(step, passes[phase]) for step, passes in self._steps]
        return _over_stages([step.pass_phase(one, tokens=tokens) for step, one in of_stages])

    def kept_with_micro_batch(self, phase: Phase, tokens: int) -> int:
        """The most that PyTorch may hold of freed blocks in a pass with no more tokens than these."""
        of_stages = [(step, passes[phase]) for step, passes in self._steps]
        return _over_stages([step.pass_phase(one, tokens, tokens) for step, one in of_stages]).kept_bytes

    def phases(self) -> Iterator[PhaseEstimate]:
        """The phases in order, one after the other."""
        return (estimate for phase in self._steps[0][0].phases if (estimate := self.phase(phase)) is not None)

    @cached_property
    def all_phases(self) -> tuple[PhaseEstimate, ...]:
        """Every phase in order, each with the blocks that the one before it has left."""
        return tuple(with_blocks_before(self.phases(), self._steps[0][1]))

    @cached_property
    def host_terms(self) -> tuple[Term, ...]:
        """What the host memory of a node holds."""
        return host_terms(self._workload.at_rest)

    @property
    def host_bytes(self) -> int:
        """Host memory per node."""
        return sum(term.bytes for term in self.host_terms)

    @property
    def host_is_short(self) -> bool:
        """Whether a node has too little host memory."""
        limit = self._workload.cluster.host_memory_bytes
        sure = (term.bytes for term in self.host_terms if not term.may_be_nothing)
        return limit is not None and sum(sure) > limit

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """Why the job could not run, however much memory its GPUs had to spare."""
        reasons = list(start_problems(self._workload.at_rest))
        if self.host_is_short:
            reasons.append(_("offloaded states and copies take more host memory than a node has"))
        return tuple(reasons)

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """Why the job may not run although every phase fits."""
        doubts = (
            added_doubt(self._workload),
            start_doubt(self._workload.at_rest),
            save_doubt(self._workload, self.phase(Phase.SAVE_CHECKPOINT)),
            padding_doubt(self._workload, self.phase, self.bound_bytes),
        )
        return tuple(doubt for doubt in doubts if doubt is not None)

    @cached_property
    def estimate(self) -> Estimate:
        """The whole estimate."""
        cluster = self._workload.cluster
        return Estimate(
            phases=self.all_phases,
            capacity_bytes=cluster.gpu.capacity_bytes,
            host_bytes=self.host_bytes,
            host_terms=self.host_terms,
            host_capacity_bytes=cluster.host_memory_bytes,
            problems=self.problems,
            doubts=self.doubts,
        )


def added_doubt(workload: Workload) -> str | None:
    """Why the job may not fit although all that is counted does: its trainer's copy adds models."""
    if not workload.added_models:
        return None
    sections = _(", ").join(workload.added_models)
    return _("the models that this copy of the trainer adds with {sections} are not counted").format(
        sections=sections
    )


def estimate(workload: Workload) -> Estimate:
    """Bytes per phase, moment and term on the fullest GPU of a job.

    Sequences are taken at their maximum length: a job must fit when responses have grown.
    """
    return StepMemory(workload).estimate
