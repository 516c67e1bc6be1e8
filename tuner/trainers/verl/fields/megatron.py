"""Fields of an engine under Megatron: its dtypes, and what it recomputes and offloads."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from tuner.architectures import Architecture, find_architecture
from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.trainers.fields import (
    FLAG,
    Assignments,
    Field,
    Plain,
    Ruled,
    read_fields,
)
from tuner.trainers.verl.batch_fields import TOKEN_BYTES
from tuner.trainers.verl.copy_facts import OWN_RECOMPUTATION_UNTIL
from tuner.trainers.verl.fields.adapters import megatron_lora
from tuner.trainers.verl.fields.megatron_grid import GRID, read_grid
from tuner.trainers.verl.fields.role import BACKEND, EngineContext, bucket_tokens
from tuner.trainers.verl.source import ROLES, ReleaseSettings, Role
from tuner.workload import Backend, Checkpointing, Dispatcher, Engine, HostCopy, Padding, Parallelism

#: Whether a converter of Megatron-Bridge turns a fusion on, by the switch that overrides it.
_BRIDGE_FUSES: dict[str, Callable[[Architecture], bool]] = {
    "bias_activation_fusion": lambda architecture: architecture.bridge_fuses_activation,
    "apply_rope_fusion": lambda architecture: architecture.bridge_fuses_rotary,
}

#: Release that goes with Megatron-Core 0.15, which rotates packed sequences all at once, and has an offset
#: for what a gate multiplies. Source: verl 0.7.1 ``utils/megatron_utils.py`` (follows 0.15.0rc7), verl's
#: images (0.4 and 0.5: Megatron-Core 0.12.2, 0.6: 0.13.0, 0.7: 0.15.0, 0.9: 0.18.0); Megatron-Core 0.12 to
#: 0.18 ``models/common/embeddings/rope_utils.py`` (``_apply_rotary_pos_emb_thd``), ``transformer/mlp.py``
#: (``glu_linear_offset``, in 0.15.0 and not in 0.14.0).
_CORE_0_15 = "0.7.0"


def read_megatron(context: EngineContext) -> Engine:
    """An engine under Megatron.

    Raises:
        InputError: a value has the wrong type, or the parallel sizes exceed the GPUs.
    """
    # Settings of many grids are read one after the other, and the rest is the same for all of them.
    engine = context.source.part(
        f"{context.role}.megatron", _beside_grid, context.role, context.backend, context.model
    )
    return replace(engine, parallel=read_grid(context, read_fields(GRID, context)["parallel"]))


def _beside_grid(source: ReleaseSettings, role: Role, backend: Backend, model: ModelShape) -> Engine:
    """An engine as it is on any grid, on that of a single GPU."""
    context = EngineContext(source=source, role=role, backend=backend, model=model, gpus=1)
    dtype = source.dtype(f"{context.configured_role}.megatron.dtype", default=DType.BFLOAT16)
    fields = read_fields(_BESIDE_GRID[role], context)
    return Engine(
        token_bytes=TOKEN_BYTES,
        **fields,
        parallel=Parallelism(gpus=1),
        stored_dtype=dtype,
        compute_dtype=dtype,
        host_copy=_host_copy(source, role),
        collects_garbage=not source.since("0.9.1"),
        padding=Padding.MICRO_BATCH if role == _REWARD else _padding(source, role),
        bucket_tokens=1 if role == _REWARD else bucket_tokens(source, f"{role}.megatron"),
        recomputes_parts=_recomputes_parts(source, role, fields),
        fused_layers=_fuses(context, "bias_activation_fusion", elsewhere=context.model.moe is not None),
        rotates_each=not source.since(_CORE_0_15),
        offsets_gated=source.since(_CORE_0_15),
        stacks_experts=_stacks_experts(context),
        dispatcher=_dispatcher(context),
        **_further_token(source, role),
        **(_FROZEN if role in _NEVER_TRAINED else _trained(context, dtype)),
    )


# -- what the release makes of other settings -------------------------------------------------


def _host_copy(source: ReleaseSettings, role: Role) -> HostCopy:
    """How weights leave for the host.

    Those that are trained are one buffer: before 0.9.0 ``cpu().pin_memory()``, which makes two copies, and
    then a page-locked buffer that stays. Those of a model that is not trained go tensor by tensor.

    Source: verl 0.4.1 to 0.9.1 ``utils/megatron_utils.py`` (``offload_megatron_model_to_cpu``).
    """
    if role in _NEVER_TRAINED:
        return HostCopy.PAGEABLE if source.since("0.9.0") else HostCopy.PINNED
    return HostCopy.PINNED if source.since("0.9.0") else HostCopy.REPINNED


#: A reference and a reward model have neither a backward pass nor an optimizer.
_REWARD: Role = "reward"
_NEVER_TRAINED = ("ref", _REWARD)
_FROZEN: Mapping[str, Any] = {
    "checkpointing": Checkpointing.NONE,
    "reduce_dtype": DType.FLOAT32,
    "optimizer_dtype": DType.FLOAT32,
    "optimizer_offload": False,
    "optimizer_offload_fraction": 0.0,
    "distributed_optimizer": True,
}


def _trained(context: EngineContext, dtype: DType) -> dict[str, Any]:
    """What only an engine with an optimizer and a backward pass has."""
    source, section = context.source, f"{context.role}.megatron.override_transformer_config"
    bridge = _through_bridge(source, context.role)
    return {
        "reduce_dtype": _gradient_dtype(source, context.role, dtype),
        "frees_stage_outputs": source.flag(f"{section}.deallocate_pipeline_outputs", default=bridge),
        "fused_weight_gradients": source.flag(f"{section}.gradient_accumulation_fusion", default=bridge),
        "lora": megatron_lora(context),
        **_optimizer(source, context.role, dtype),
    }


def _optimizer(source: ReleaseSettings, role: Role, dtype: DType) -> dict[str, Any]:
    """What the optimizer keeps, in which dtypes.

    A precision-aware optimizer keeps of a bfloat16 weight's main weight only the lower half; one that
    lives in part on the host keeps whole main weights. float16 always has one, with whole weights.
    """
    chosen = source.flag(f"{role}.precision_aware")
    precise = chosen or source.flag(f"{role}.override_precision_aware") or dtype is DType.FLOAT16
    halves = precise and dtype is DType.BFLOAT16 and not source.flag(f"{role}.optimizer_cpu_offload")
    moments = source.dtype(f"{role}.moment_dtype", default=DType.FLOAT32) if chosen else DType.FLOAT32
    return {
        "optimizer_dtype": moments,
        "main_weight_bytes": (DType.BFLOAT16 if halves else DType.FLOAT32).bytes,
        "main_weights_offloaded": precise,
    }


def _further_token(source: ReleaseSettings, role: Role) -> dict[str, Any]:
    """Whether a module for multi-token prediction is built; the old workers build the actor's alone."""
    built = role == "actor" or (role == "ref" and source.engine_workers)
    there, trained = source.flag("model.mtp"), source.flag("model.mtp_train")
    return {"mtp_module": True, "mtp_trained": trained and role == "actor"} if built and there else {}


def _through_bridge(source: ReleaseSettings, role: Role) -> bool:
    """Whether Megatron-Bridge builds the model: since 0.7.0 where it is chosen over mbridge."""
    if source.key(f"{role}.megatron.vanilla_mbridge") is None:
        return False
    return source.flag(f"{role}.megatron.use_mbridge", default=True) and not source.flag(
        f"{role}.megatron.vanilla_mbridge", default=not source.since("0.9.0")
    )


def _stacks_experts(context: EngineContext) -> bool:
    """Whether the experts of a layer leave as one tensor, as the checkpoint has them."""
    stacked = find_architecture(context.model.architecture).bridge_stacks_experts
    return stacked and _through_bridge(context.source, context.configured_role)


def _dispatcher(context: EngineContext) -> Dispatcher:
    """How tokens get to their experts: all-to-all, which verl sets, unless an override asks for another way.

    Source: verl 0.4.1 to 0.9.1 ``models/mcore/config_converter.py``, 0.9.1
    ``workers/engine/megatron/transformer_impl.py`` (``moe_token_dispatcher_type``).
    """
    section = f"{context.configured_role}.megatron.override_transformer_config"
    words = tuple(dispatcher.value for dispatcher in Dispatcher)
    chosen = context.source.choice(
        f"{section}.moe_token_dispatcher_type", words, default=Dispatcher.ALL_TO_ALL.value
    )
    return Dispatcher(chosen)


def _padding(source: ReleaseSettings, role: Role) -> Padding:
    """The longest of a micro-batch, and since 0.9.0 of the mini-batch unless that is switched off.

    Source: verl 0.7.1 ``models/mcore/util.py`` (``remove_left_padding``), 0.8.0 there (``preprocess_bshd``);
    0.9.1 ``workers/engine/megatron/transformer_impl.py`` (``pad_bshd_to_minibatch_max``).
    """
    key = f"{role}.megatron.pad_bshd_to_minibatch_max"
    if source.key(key) is not None and source.flag(key, default=True):
        return Padding.MINI_BATCH
    return Padding.MICRO_BATCH


def _recomputes_parts(source: ReleaseSettings, role: Role, fields: Mapping[str, Any]) -> bool:
    """Whether selective recomputation takes other modules than the attention core, its default."""
    if role in _NEVER_TRAINED:
        return False
    modules = source.names(f"{_recompute(role)}_modules")
    own = modules is not None and modules != ("core_attn",)
    return own and fields["checkpointing"] is Checkpointing.SELECTIVE


def _asks_to_divide(context: EngineContext) -> bool:
    """Whether the switch of sequence parallelism counts; else tensor parallelism turns it on."""
    return _through_bridge(context.source, context.configured_role)


def _gradient_dtype(source: ReleaseSettings, role: Role, dtype: DType) -> DType:
    """The gradient buffer: float32, but what Megatron-Bridge builds in 0.7 and 0.8 follows the weights.

    Since 0.9 a precision-aware optimizer says it. An override wins, but for mbridge, which gets none
    before 0.6.1.
    """
    override = f"{role}.megatron.override_ddp_config.grad_reduce_in_fp32"
    low = _through_bridge(source, role) and not source.since("0.9.0")
    if source.flag(f"{role}.precision_aware"):
        low = source.dtype(f"{role}.main_grads_dtype", default=DType.FLOAT32) is not DType.FLOAT32
    if not source.since("0.6.1") and source.flag(f"{role}.megatron.use_mbridge"):
        return DType.FLOAT32
    return DType.FLOAT32 if source.flag(override, default=not low) else dtype


def _fuses(context: EngineContext, switch: str, *, elsewhere: bool) -> bool:
    """Whether a fusion of the layers is on: by an override, by the bridge's converter, or ``elsewhere``.

    verl's own converters and mbridge fuse SwiGLU for sparse models, and rotate in plain operations.
    """
    source, role = context.source, context.configured_role
    bridged = _BRIDGE_FUSES[switch](find_architecture(context.model.architecture))
    default = bridged if _through_bridge(source, role) else elsewhere
    return source.flag(f"{role}.megatron.override_transformer_config.{switch}", default=default)


def _rotates_at_once(context: EngineContext) -> bool:
    """Whether one kernel rotates; of verl's own converters that of Mixtral asks for it.

    Source: verl 0.4.1 to 0.9.1 ``models/mcore/config_converter.py`` (``hf_to_mcore_config_mixtral``).
    """
    converted = not context.source.flag(f"{context.configured_role}.megatron.use_mbridge")
    return _fuses(
        context, "apply_rope_fusion", elsewhere=converted and context.model.architecture == "mixtral"
    )


def _set_rotation(context: EngineContext, engine: Engine) -> Assignments:
    section = f"{context.configured_role}.megatron.override_transformer_config"
    return ((f"{section}.apply_rope_fusion", engine.fused_rotary),)


# -- recomputation ----------------------------------------------------------------------------


def _recompute(role: Role) -> str:
    return f"{role}.megatron.override_transformer_config.recompute"


def _recomputation(context: EngineContext) -> Checkpointing:
    """What is recomputed; 0.4, and copies of it, have switches of its own that win when enabled."""
    source, legacy = context.source, context.switches
    meaning = f"{_recompute(context.role)}_granularity"
    own = source.copy.own_recomputation
    switched = not source.since(OWN_RECOMPUTATION_UNTIL) if own is None else own
    if switched and source.flag(f"{legacy}.gradient_checkpointing"):
        meaning = f"{legacy}.megatron_recompute"
    return Checkpointing(source.choice(meaning, ("full", "selective"), default="none"))


def _set_recomputation(context: EngineContext, engine: Engine) -> Assignments:
    granularity = None if engine.checkpointing is Checkpointing.NONE else engine.checkpointing.value
    recompute = _recompute(context.role)
    written: Assignments = ((f"{recompute}_granularity", granularity),)
    match engine.checkpointing:
        case Checkpointing.FULL:  # demands both
            return (*written, (f"{recompute}_method", "uniform"), (f"{recompute}_num_layers", 1))
        case Checkpointing.NONE:  # neither is read
            return (*written, (f"{recompute}_method", None), (f"{recompute}_num_layers", None))
        case _:
            return written


def _first_layers(context: EngineContext) -> int | None:
    """How many of a stage's first layers are recomputed (block); None where all are, or none (uniform)."""
    return _layer_count(context, "block")


def _layers_at_once(context: EngineContext) -> int:
    """How many layers are recomputed together (uniform)."""
    return max(1, _layer_count(context, "uniform") or 1)


def _layer_count(context: EngineContext, wanted: str) -> int | None:
    source, recompute = context.source, _recompute(context.role)
    full = _recomputation(context) is Checkpointing.FULL
    if not full or source.key(f"{recompute}_method") is None:
        return None
    method = source.choice(f"{recompute}_method", ("uniform", "block"), default="uniform")
    count = source.integer(f"{recompute}_num_layers", default=1, minimum=0)
    return count if method == wanted else None


def _set_layers(context: EngineContext, engine: Engine) -> Assignments:
    recompute, first = _recompute(context.role), engine.recompute_first_layers
    method: str | None
    if engine.checkpointing is not Checkpointing.FULL:
        method, count = None, None
    elif first is None:
        method, count = "uniform", engine.recompute_layers
    else:
        method, count = "block", first
    return ((f"{recompute}_method", method), (f"{recompute}_num_layers", count))


# -- the table --------------------------------------------------------------------------------


def _packed(context: EngineContext) -> str:
    """Megatron packs always up to 0.6, by its own switch in 0.7, by the model's later."""
    if context.source.engine_workers:
        return f"{context.switches}.packed"
    return f"{'critic' if context.role == 'critic' else 'actor'}.megatron.use_remove_padding"


def _host_share(context: EngineContext) -> float:
    source, role = context.source, context.role
    fraction = source.number(f"{role}.optimizer_offload_fraction", default=0.0, minimum=0.0, maximum=1.0)
    return fraction if source.flag(f"{role}.optimizer_cpu_offload") else 0.0


def _set_host_share(context: EngineContext, engine: Engine) -> Assignments:
    fraction = engine.optimizer_offload_fraction
    return (
        (f"{context.role}.optimizer_cpu_offload", fraction > 0),
        (f"{context.role}.optimizer_offload_fraction", fraction),
    )


_DIVIDES_SEQUENCE: Plain[EngineContext] = Plain(
    "divides_sequence",
    lambda context: f"{context.configured_role}.megatron.sequence_parallel",
    FLAG,
    True,
    heeded=_asks_to_divide,
    otherwise=True,
    checked=True,
)


def _fields(role: Role) -> tuple[Field[EngineContext], ...]:
    section = f"{role}.megatron"
    return (
        BACKEND,
        Plain("packed", _packed, FLAG, True),
        Plain("param_offload", f"{section}.param_offload", FLAG, False),
        Plain("optimizer_offload", f"{section}.optimizer_offload", FLAG, False),
        *GRID,
        *(() if role == _REWARD else (_DIVIDES_SEQUENCE,)),
        Plain("distributed_optimizer", f"{section}.use_distributed_optimizer", FLAG, True),
        Ruled("optimizer_offload_fraction", _host_share, _set_host_share),
        Ruled("checkpointing", _recomputation, _set_recomputation),
        Ruled("recompute_first_layers", _first_layers, _set_layers),
        Ruled("recompute_layers", _layers_at_once, _set_layers),
        Ruled("fused_rotary", _rotates_at_once, _set_rotation),
    )


_OF_TRAINED = (*_FROZEN, "recompute_first_layers", "recompute_layers")
MEGATRON = {
    role: tuple(
        field for field in _fields(role) if role not in _NEVER_TRAINED or field.path not in _OF_TRAINED
    )
    for role in (*ROLES, _REWARD)
}
_BESIDE_GRID = {
    role: tuple(field for field in fields if field not in GRID) for role, fields in MEGATRON.items()
}
