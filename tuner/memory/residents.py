"""What the trainer's engines keep on the card, and when.

An engine keeps its weights and, once it has trained, its optimizer states, unless it offloads them
between passes. A forward-only pass can leave more behind: weights that FSDP gathered and that no
backward pass frees again.
"""

from functools import lru_cache

from msgspec import Struct

from tuner.memory import model_states
from tuner.memory.fsdp.units import has_held_weights, is_unsharded, root_parameters
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.megatron import grid
from tuner.memory.process import communicators, overhead
from tuner.model_shape import ModelShape
from tuner.workload import Backend, Engine, Workload


def left_gathered_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gathered weights that stay on the card after a forward-only pass.

    .. math::
        b_c \, U_r \;\text{(FSDP1's root)}, \qquad
        b_c \, N \;\text{(nothing resharded)}, \qquad
        b_c \, (N - U_r) \;\text{(all but the root)}

    :math:`U_r` parameters of the root unit. FSDP frees a unit after its forward pass if
    ``reshard_after_forward`` is on. FSDP1 keeps the root all the same, for a backward pass that is
    expected to follow, and so did FSDP2 before torch 2.8; after log-probabilities none follows. Some releases
    of verl then reshard the root, and only the root. The weights stay until a backward pass frees
    them, so the actor's until its update, and those of a reference for good. Offloading
    the parameters frees them under FSDP2, whose ``Module.to`` reshards first, but not under FSDP1,
    which moves only its shards.

    A single GPU under FSDP1 leaves nothing, but for :math:`b_c \, N` of an engine whose weights are
    fetched from the host and not cast: its modules hold what was fetched
    (:func:`tuner.memory.fsdp.units.has_held_weights`), from the engine's construction on.

    Source: torch ``fsdp/_runtime_utils.py`` (``_post_forward_reshard``), ``fsdp/_fully_shard/_fsdp_state.py``
    (``_lazy_init``), ``_fully_shard.py`` (``FSDPModule._apply``); verl 0.9.1
    ``workers/engine/fsdp/transformer_impl.py`` (``EngineEvalModeCtx``), verl 0.7.1
    ``workers/fsdp_workers.py`` (``compute_log_prob``).
    """
    return left_gathered_parameters(model, engine) * engine.compute_dtype.bytes


def left_gathered_parameters(model: ModelShape, engine: Engine) -> int:
    """Parameters of the units that stay whole after a forward-only pass."""
    if engine.backend is Backend.MEGATRON:
        return 0
    first = engine.backend is Backend.FSDP
    if is_unsharded(engine):
        return model.parameters if has_held_weights(engine) and engine.streamed_offload else 0
    if not first and engine.param_offload:
        return 0
    root = root_parameters(model, engine)
    layers = 0 if engine.reshard_after_forward else model.parameters - root
    kept = first or engine.keeps_root or not engine.reshard_after_forward
    return layers + (root if kept and not engine.frees_root else 0)


def left_gathered(model: ModelShape, engine: Engine, role: str) -> Term | None:
    """What a forward-only pass of an engine leaves gathered; None where that is nothing."""
    count = left_gathered_parameters(model, engine)
    if not count:
        return None
    root, whole = root_parameters(model, engine), model.parameters
    symbols: tuple[tuple[str, float], ...] = (("N", whole), ("U_r", root))
    formula = "b_c (N - U_r)"
    if count == root:
        formula, symbols = "b_c U_r", (("U_r", root),)
    elif count == whole:
        formula, symbols = "b_c N", (("N", whole),)
    return Term(
        item=Item.UNSHARDED,
        name=f"{role}_gathered",
        bytes=left_gathered_bytes(model, engine),
        formula=formula,
        symbols=(("b_c", engine.compute_dtype.bytes), *symbols),
        source="memory.residents.left_gathered_bytes",
    )


def parameters_term(model: ModelShape, engine: Engine, role: str) -> Term:
    """An engine's weights as they are stored; ``role`` begins the name."""
    symbols: tuple[tuple[str, float], ...]
    if engine.backend is Backend.MEGATRON:
        count = grid.local_parameters(model, engine).total + model_states.megatron_adapters(engine)
        size = engine.compute_dtype.bytes
        formula, symbols = "b_c N_p", (("b_c", size), ("N_p", count))
    else:
        count, size = model_states.stored_parameters(model, engine), engine.stored_dtype.bytes
        formula = "b_s ceil(N / W)"
        symbols = (("b_s", size), ("N", count), ("W", engine.parallel.shard))
    return Term(
        item=Item.PARAMETERS,
        name=f"{role}_parameters",
        bytes=model_states.parameter_bytes(model, engine),
        formula=formula,
        symbols=symbols,
        source="memory.model_states.parameter_bytes",
    )


def optimizer_term(model: ModelShape, engine: Engine, role: str) -> Term:
    """An engine's optimizer states; ``role`` begins the name."""
    moment = engine.optimizer_dtype.bytes
    trained = model_states.trained_parameters(model, engine)
    parallel = engine.parallel
    symbols: tuple[tuple[str, float], ...]
    if engine.backend is not Backend.MEGATRON:
        formula = "2 b_o ceil(N_t / W)"
        symbols = (("b_o", moment), ("N_t", trained), ("W", parallel.shard))
    else:
        fraction = engine.optimizer_offload_fraction
        formula = "N_o (b_m (1 - f_m) + 2 b_o (1 - f_o))"
        symbols = (
            ("N_o", model_states.megatron_optimizer_share(model, engine)),
            ("b_m", engine.main_weight_bytes),
            ("f_m", fraction if engine.main_weights_offloaded else 0),
            ("b_o", moment),
            ("f_o", fraction),
        )
    return Term(
        item=Item.OPTIMIZER,
        name=f"{role}_optimizer",
        bytes=model_states.optimizer_bytes(model, engine),
        formula=formula,
        symbols=symbols,
        source="memory.model_states.optimizer_bytes",
    )


def buffer_term(model: ModelShape, engine: Engine, role: str) -> Term | None:
    """Megatron's gradient buffer, which lies on the card with the weights; None under FSDP."""
    if engine.backend is not Backend.MEGATRON:
        return None
    return Term(
        item=Item.GRADIENTS,
        name=f"{role}_gradients",
        bytes=model_states.gradient_bytes(model, engine),
        formula="b_r N_g",
        symbols=(
            ("b_r", engine.reduce_dtype.bytes),
            ("N_g", model_states.megatron_gradients(model, engine)),
        ),
        source="memory.model_states.gradient_bytes",
    )


class States(Struct, frozen=True, kw_only=True):
    """One engine's resident states."""

    parameters: Term
    optimizer: Term
    left: Term | None  # what its forward-only pass leaves gathered
    buffer: Term | None  # Megatron's gradient buffer
    engine: Engine

    @classmethod
    def of(cls, model: ModelShape, engine: Engine, role: str) -> "States":
        """The states of an engine; ``role`` begins the terms' names."""
        return _states(model, engine, role)

    @classmethod
    def _of(cls, model: ModelShape, engine: Engine, role: str) -> "States":
        return cls(
            parameters=parameters_term(model, engine, role),
            optimizer=optimizer_term(model, engine, role),
            left=left_gathered(model, engine, role),
            buffer=None if role == "reference" else buffer_term(model, engine, role),
            engine=engine,
        )

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
        kept = (*self.kept_parameters, *self.kept_buffer)
        return kept if self.engine.optimizer_offload else (*kept, self.optimizer)

    @property
    def forward(self) -> tuple[Term, ...]:
        """A forward-only pass loads offloaded weights, not the optimizer."""
        kept = (self.parameters, *self.kept_buffer)
        return kept if self.engine.optimizer_offload else (*kept, self.optimizer)

    @property
    def training(self) -> tuple[Term, ...]:
        """Training loads everything at its start and offloads at its end."""
        buffer = () if self.buffer is None else (self.buffer,)
        return (self.parameters, *buffer, self.optimizer)

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


class Residents(Struct, frozen=True, kw_only=True):
    """The engines of a job, and the trainer process itself."""

    actor: States
    critic: States | None
    reference: States | None  # None also where it is the actor
    process: tuple[Term, ...]  # context and communicators

    @classmethod
    def of(cls, workload: Workload) -> "Residents":
        """The residents of a workload."""
        critic, reference = workload.critic, workload.reference
        connected = communicators.trainer_communicators(workload)
        separate = reference is not None and reference.separate
        return cls(
            actor=States.of(workload.model, workload.actor.engine, "actor"),
            critic=None if critic is None else States.of(critic.model, critic.engine, "critic"),
            reference=States.of(workload.model, reference.engine, "reference")
            if reference is not None and separate
            else None,
            process=(
                overhead.context_term("trainer_context", workload.cluster.gpu),
                communicators.communicators_term("communicators", connected, workload.cluster.gpu),
            ),
        )

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
        return () if reference is None else (*reference.kept_parameters, *reference.after_forward)

    @property
    def idle(self) -> tuple[Term, ...]:
        """Everything the trainer holds during generation."""
        return (*self.idle_actor, *self.idle_critic, *self.idle_reference, *self.process)

    @property
    def at_start(self) -> tuple[Term, ...]:
        """What the trainer holds before its first pass, when the rollout engine sizes its cache."""
        engines = (self.actor, self.critic, self.reference)
        weights = tuple(term for states in engines if states is not None for term in states.at_start)
        return (*weights, *self.process)


@lru_cache(maxsize=256)  # proposals that leave an engine as it is leave its states as they are
def _states(model: ModelShape, engine: Engine, role: str) -> States:
    return States._of(model, engine, role)
