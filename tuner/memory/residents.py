"""What the trainer's engines keep on the card, and when.

An engine keeps its weights and, once it has trained, its optimizer states, unless it offloads them
between passes. A forward-only pass can leave more behind: weights that FSDP gathered and that no
backward pass frees again.
"""

from functools import cached_property, lru_cache

from msgspec import Struct

from tuner.memory.fsdp import states as fsdp_states
from tuner.memory.fsdp.tensor_slice import engine_of_a_rank, model_of_a_rank
from tuner.memory.fsdp.units import has_held_weights, is_unsharded
from tuner.memory.fsdp.weights_left_gathered import left_gathered
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron import states as megatron_states
from tuner.memory.process import communicators, terms
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, Workload

_FROZEN = ("reference", "reward")  # roles of models that are never trained


def parameters(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """An engine's weights as they are stored; ``role`` begins the name."""
    if engine.backend is Backend.MEGATRON:
        return megatron_states.parameters(model, engine, role)
    return fsdp_states.parameters(model, engine, role)


def gradients(model: ModelShape, engine: Engine, name: str = "gradients") -> Term:
    """An engine's gradients before the optimizer step; Megatron's buffer at any time."""
    if engine.backend is Backend.MEGATRON:
        return megatron_states.gradients(model, engine, name)
    return fsdp_states.gradients(model, engine, name)


def optimizer(model: ModelShape, engine: Engine, role: str = "actor") -> Term:
    """An engine's optimizer states; ``role`` begins the name."""
    if engine.backend is Backend.MEGATRON:
        return megatron_states.optimizer(model, engine, role)
    return fsdp_states.optimizer(model, engine, role)


def optimizer_step(model: ModelShape, engine: Engine) -> Term:
    """What an optimizer step allocates for itself."""
    if engine.backend is Backend.MEGATRON:
        return megatron_states.optimizer_step(model, engine)
    return fsdp_states.optimizer_step(model, engine)


class States(Struct, frozen=True, kw_only=True):
    """One engine's resident states."""

    parameters: Term
    optimizer: Term
    left: Term | None  # what its forward-only pass leaves gathered
    buffer: Term | None  # Megatron's gradient buffer
    engine: Engine
    main: tuple[Term, ...] = ()  # Megatron's main weights, where they stay as moments leave
    cast: tuple[Term, ...] = ()  # weights in 8 bits beside those that are stored, which nothing offloads
    module: tuple[Term, ...] = ()  # Megatron's module for multi-token prediction: how much it may take

    @property
    def kept_parameters(self) -> tuple[Term, ...]:
        """The weights, where they stay on the card between passes; offloaded ones that modules hold do."""
        return () if self.engine.param_offload and not has_held_weights(self.engine) else (self.parameters,)

    @property
    def kept_buffer(self) -> tuple[Term, ...]:
        """Megatron's gradient buffer, where nothing offloads it with the weights."""
        return () if self.buffer is None or self.engine.param_offload else (self.buffer,)

    @property
    def idle(self) -> tuple[Term, ...]:
        """What stays on the card while another engine works."""
        offloaded = self.engine.param_offload and self.engine.optimizer_offload
        module = () if offloaded else self.module
        staying = (*self.kept_parameters, *self.kept_buffer, *self.cast, *module)
        return (*staying, *self.main) if self.engine.optimizer_offload else (*staying, self.optimizer)

    @property
    def forward(self) -> tuple[Term, ...]:
        """A forward-only pass loads offloaded weights, not the optimizer."""
        staying = (self.parameters, *self.kept_buffer, *self.cast, *self.module)
        return (*staying, *self.main) if self.engine.optimizer_offload else (*staying, self.optimizer)

    @property
    def training(self) -> tuple[Term, ...]:
        """Training loads everything at its start and offloads at its end."""
        buffer = () if self.buffer is None else (self.buffer,)
        return (self.parameters, *buffer, *self.cast, self.optimizer, *self.module)

    @property
    def saving(self) -> tuple[Term, ...]:
        """A checkpoint loads offloaded weights, with Megatron's gradient buffer, not the optimizer."""
        staying = (self.parameters, *self.cast, *self.module)
        staying = staying if self.buffer is None else (*staying, self.buffer)
        return staying if self.engine.optimizer_offload else (*staying, self.optimizer)

    @property
    def at_start(self) -> tuple[Term, ...]:
        """Before the first pass: modules of a single GPU under FSDP1 hold weights that were offloaded."""
        if is_unsharded(self.engine):
            return (self.parameters, *self.after_forward)
        return (*self.kept_parameters, *self.kept_buffer)

    @property
    def after_forward(self) -> tuple[Term, ...]:
        """What a forward-only pass leaves gathered."""
        return () if self.left is None else (self.left,)


@lru_cache(maxsize=512)  # proposals that leave an engine as it is leave its states as they are
def states_of(model: ModelShape, engine: Engine, role: str) -> States:
    """The states of an engine, none of one that is not modelled; ``role`` begins the terms' names."""
    if engine.library:
        nothing = Term(item=Item.PARAMETERS, name=f"{role}_states", bytes=0)
        return States(parameters=nothing, optimizer=nothing, left=None, buffer=None, engine=engine)
    model, engine = model_of_a_rank(model, engine), engine_of_a_rank(engine)
    has_buffer = engine.backend is Backend.MEGATRON and role not in _FROZEN
    return States(
        parameters=parameters(model, engine, role),
        optimizer=optimizer(model, engine, role),
        left=left_gathered(model, engine, role),
        buffer=gradients(model, engine, f"{role}_gradients") if has_buffer else None,
        engine=engine,
        main=_main_weights(model, engine, role) if engine.keeps_main_weights and role not in _FROZEN else (),
        cast=_cast(model, engine, role) if engine.cast_weight_bytes and role not in _FROZEN else (),
        module=_module(model, engine, role) if engine.mtp_module else (),
    )


def _main_weights(model: ModelShape, engine: Engine, role: str) -> tuple[Term, ...]:
    return (megatron_states.main_weights(model, engine, role),)


def _cast(model: ModelShape, engine: Engine, role: str) -> tuple[Term, ...]:
    from tuner.memory.megatron.eight_bits import cast_weights  # few jobs have any

    return (cast_weights(model, engine, role),)


def _module(model: ModelShape, engine: Engine, role: str) -> tuple[Term, ...]:
    from tuner.memory.megatron.mtp import module_states  # few jobs have one

    return module_states(model, engine, role)


class Residents(Struct, frozen=True, kw_only=True, dict=True):
    """The engines of a job, and the trainer process itself."""

    actor: States
    critic: States | None
    reference: States | None  # None also where it is the actor
    reward: States | None  # None also where an inference engine serves it
    process: tuple[Term, ...]  # context, communicators, buckets that are never given back
    started: tuple[Term, ...]  # the same before the first pass, when few communicators exist

    @classmethod
    def of(cls, workload: Workload) -> "Residents":
        """The residents of a workload."""
        return _residents(workload.standing)

    @property
    def idle_actor(self) -> tuple[Term, ...]:
        """The actor while the critic or the rollout works."""
        return self.actor.idle

    @property
    def idle_critic(self) -> tuple[Term, ...]:
        """The critic while the actor or the rollout works; nothing without a critic."""
        return () if self.critic is None else self.critic.idle

    @property
    def idle_reference(self) -> tuple[Term, ...]:
        """The reference while others work: it never trains, so nothing frees what it left gathered."""
        reference = self.reference
        if reference is None:
            return ()
        module = () if reference.engine.param_offload else reference.module
        return (*reference.kept_parameters, *reference.after_forward, *module)

    @property
    def idle_reward(self) -> tuple[Term, ...]:
        """The reward model while others work: it never trains either."""
        reward = self.reward
        return () if reward is None else (*reward.kept_parameters, *reward.after_forward)

    @property
    def frozen(self) -> tuple[Term, ...]:
        """The models that only run forward, while others work."""
        return (*self.idle_reference, *self.idle_reward)

    @cached_property
    def idle(self) -> tuple[Term, ...]:
        """Everything the trainer holds during generation."""
        return (*self.idle_actor, *self.idle_critic, *self.frozen, *self.process)

    @cached_property
    def at_start(self) -> tuple[Term, ...]:
        """What the trainer holds before its first pass, when the rollout engine sizes its cache."""
        engines = (self.actor, self.critic, self.reference, self.reward)
        weights = tuple(term for states in engines if states is not None for term in states.at_start)
        return (*weights, *self.started)


@lru_cache(maxsize=256)  # a step asks for them, and so does the rollout engine's share beside them
def _residents(workload: Workload) -> Residents:
    critic, reference = workload.critic, workload.reference
    separate = reference is not None and reference.separate
    scored = workload.scoring
    return Residents(
        actor=states_of(workload.model, workload.actor.engine, "actor"),
        critic=None if critic is None else states_of(critic.model, critic.engine, "critic"),
        reference=states_of(reference.model or workload.model, reference.engine, "reference")
        if reference is not None and separate
        else None,
        reward=None if scored is None else states_of(scored.model, scored.engine, "reward"),
        process=_process(workload, communicators.trainer_communicators(workload)),
        started=_process(workload, communicators.started_communicators(workload)),
    )


def _process(workload: Workload, connected: communicators.Communicators) -> tuple[Term, ...]:
    """The trainer's process beside its models, with these communicators."""
    gpu = workload.cluster.gpu
    return (
        terms.context_term("trainer_context", gpu),
        terms.communicators_term("communicators", connected, gpu),
        *(() if workload.sync is None else terms.kept_buckets(workload.sync)),
    )
