"""Fields of an engine under FSDP1 or FSDP2."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from tuner.architectures import find_architecture
from tuner.dtypes import DType
from tuner.language import _
from tuner.trainers.fields import (
    DTYPE,
    FLAG,
    Assignments,
    Field,
    Form,
    Plain,
    Ruled,
    read_fields,
)
from tuner.trainers.verl.batch_fields import TOKEN_BYTES
from tuner.trainers.verl.fields.adapters import casts_adapters, fsdp_lora, lora_rank
from tuner.trainers.verl.fields.attention import (
    attention_name,
    attention_of,
    attention_settable,
    brings_flash,
    dense_rows_of,
    leaves_single_rows_bare,
    mixes_sequences,
    packs_by_flash,
    section_of,
)
from tuner.trainers.verl.fields.role import BACKEND, EngineContext, bucket_tokens, switches_of
from tuner.trainers.verl.models_built import taken_strategies
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.source import ROLES, ReleaseSettings, Role
from tuner.workload import (
    Attention,
    Backend,
    Checkpointing,
    Engine,
    HostCopy,
    Padding,
    Parallelism,
    SecondFsdp,
)

FULL_CHECKPOINTING = Form(
    decode=lambda source, meaning, default: (
        Checkpointing.FULL
        if source.flag(meaning, default=default is Checkpointing.FULL)
        else Checkpointing.NONE
    ),
    encode=lambda checkpointing: checkpointing is Checkpointing.FULL,
)

#: Beginnings of the model types that verl's performance guide names for ``use_remove_padding``, with gemma.
_PACKED_FAMILIES = ("llama", "mistral", "qwen")


def read_fsdp(
    context: EngineContext,
    table: Sequence[Field[EngineContext]] | None = None,
    fixed: Mapping[str, Any] | None = None,
) -> Engine:
    """An engine under FSDP, by its own table of fields or that of an engine that is like it.

    Args:
        context: what is read.
        table: the fields; None takes those of FSDP.
        fixed: what stands in none of them; None takes what FSDP decides of a reference.

    Raises:
        InputError: a value has the wrong type, or more ranks share a sequence than there are GPUs.
    """
    source, role = context.source, context.role
    if fixed is None:
        fixed = _fixed_fields(source, role)
    fields = read_fields(fsdp_fields(source, role) if table is None else table, context)
    parallel = _expect_ranks(context, Parallelism(gpus=context.gpus, **fields.pop("parallel")))
    attention = fields.setdefault("attention", Attention.SEQUENCES)  # what has no row has a key of its own
    settable = attention is not Attention.SEQUENCES and attention_settable(context)
    return Engine(
        token_bytes=TOKEN_BYTES,
        **fields,
        parallel=parallel,
        compute_dtype=_compute_dtype(context),
        optimizer_dtype=_moment_dtype(context, fields["stored_dtype"]),
        keeps_root=_keeps_root(context),
        keeps_inputs=source.engine_workers and not source.since("0.9.0"),
        attention_settable=settable,
        flash_brought=settable and brings_flash(context),
        packs_by_flash=packs_by_flash(context),
        bare_single_rows=attention is Attention.MASKED_ROWS and leaves_single_rows_bare(source),
        dense_rows=dense_rows_of(context) if attention is Attention.CAUSAL_ROWS else None,
        # flash attention of transformers gets positions or a mask alone
        reads_positions=attention is Attention.SEQUENCES,
        loops_experts=not source.since("0.9.0"),  # which needs transformers 5, and its grouped products
        keeps_loaded_experts=table is None and _keeps_loaded_experts(context),
        frees_root=_frees_root(context),
        prefetch_effective=_prefetches(context),
        layers_installed=source.copy.installs_liger,
        layers_fusable=not source.copy.liger_refuses
        and not source.copy.has_own_forward
        and liger_keeps_forward(source, context.model.architecture),
        separate_embedding_units=_separates_embedding(context),
        host_copy=_host_copy(context),
        # ``prepare_model_inputs``, whatever the batch was padded to
        padding=Padding.MICRO_BATCH if source.engine_workers else Padding.MAXIMUM,
        bucket_tokens=bucket_tokens(source, f"{role}.fsdp"),
        wraps_otherwise=_wraps_otherwise(source, role),
        plan_lowers=source.text(f"{context.configured_role}.strategy", default="") == "fsdp_turbo",
        packable=_packable(context, parallel),
        packing_tested=_packing_tested(context.model.architecture),
        optimizer_fusable=fuses_optimizer(context),
        repeats_keys=find_architecture(context.model.architecture).verl_repeats_keys,
        lora=None if role == "ref" else fsdp_lora(context),
        second=_second(context),
        **fixed,
    )


def _packable(context: EngineContext, parallel: Parallelism) -> bool:
    """Whether sequences can be packed: not beside shared prefixes, nor in fine-tuning's own trainer alone.

    A copy may list the types that it packs, and stop for any other; one whose actor pads gains nothing by the
    key that actor and reference share.

    Source: verl 0.7.0 ``trainer/fsdp_sft_trainer.py`` (``use_sp``): only ranks that share sequences do.
    """
    source, listed = context.source, context.source.copy.packed_models
    if source.program is Program.SFT:
        return parallel.ulysses > 1
    if listed is not None and context.model.architecture not in listed:
        return False
    if mixes_sequences(source, section_of(context)):
        return False
    pads = source.flag("actor.shared_prefixes") or source.copy.built.pads_actor
    return context.role == "critic" or not pads


def liger_keeps_forward(source: ReleaseSettings, architecture: str) -> bool:
    """Whether Liger's layers leave alone the ``forward`` that verl gives a model with a vision tower.

    Before 0.8.0 verl takes Liger's fused loss along, whose ``forward`` asks the inner model for
    ``rope_deltas``, which verl's own forward of that one does not return: the first pass stops. Text models
    have no such field.

    Source: verl 0.7.1 ``workers/fsdp_workers.py:481`` and ``models/transformers/qwen2_vl.py``
    (``qwen2_vl_base_forward``), 0.8.0 ``workers/engine/fsdp/transformer_impl.py:280-284``; verl #5669.
    """
    return source.since("0.8.0") or find_architecture(architecture).tower is None


def _expect_ranks(context: EngineContext, parallel: Parallelism) -> Parallelism:
    if parallel.ulysses > parallel.gpus:
        raise context.source.error(
            f"{context.role}.ulysses",
            _("{ulysses} ranks share a sequence, but the job has {gpus} GPUs").format(
                ulysses=parallel.ulysses, gpus=parallel.gpus
            ),
        )
    return parallel


def _wraps_otherwise(source: ReleaseSettings, role: Role) -> bool:
    """Whether a policy of the user's decides what is a unit, in place of the decoder's layers."""
    least = source.key(f"{role}.fsdp.wrap_policy.min_num_params")
    if least is None:
        return False
    section = least.rpartition(".")[0]  # the others are in no release's configuration
    others = ("transformer_layer_cls_to_wrap", "disable")
    return bool(source.settings.get(least)) or any(source.settings.get(f"{section}.{key}") for key in others)


def _packing_tested(architecture: str) -> bool:
    return architecture == "gemma" or architecture.startswith(_PACKED_FAMILIES)


# -- what the release makes of other settings -------------------------------------------------


def _second(context: EngineContext) -> SecondFsdp | None:
    """What FSDP2 would make of an engine under FSDP1.

    None where the release has none, or the program raises an error for it, where ``offload_policy``
    would come to life with it, and with adapters, which verl collects by FSDP1's ``summon_full_params``.

    Source: verl 0.9.1 ``workers/engine/fsdp/transformer_impl.py:423-476``, ``utils/fsdp_utils.py``
    (``collect_lora_params``).
    """
    source, role = context.source, context.role
    if context.backend is Backend.FSDP2 or not source.since("0.4.0"):
        return None
    taken = taken_strategies(source.settings, source.version)
    if taken is not None and Backend.FSDP2.value not in taken.words:
        return None
    adapted = max(lora_rank(source, "actor", Backend.FSDP), lora_rank(source, "critic", Backend.FSDP)) > 0
    if adapted or (role != "ref" and source.flag(f"{role}.fsdp.offload_policy")):
        return None
    second = replace(context, backend=Backend.FSDP2)
    return SecondFsdp(
        keeps_root=_keeps_root(second),
        frees_root=_frees_root(second),
        prefetch_effective=_prefetches(second),
        separate_embedding_units=_separates_embedding(second),
        reshard_after_forward=source.flag(f"{role}.fsdp.reshard_after_forward", default=True),
        host_copy=_host_copy(second),
    )


def _host_copy(context: EngineContext) -> HostCopy:
    """How weights leave for the host.

    PyTorch puts what ``Tensor.to("cpu", non_blocking=True)`` makes of a tensor on the card into page-locked
    memory. ``Module.cpu()``, by which FSDP2 offloads from 0.6.0 to 0.9.0, does not.

    Source: verl 0.4.1 to 0.9.1 ``utils/fsdp_utils.py`` (``offload_fsdp_model_to_cpu``,
    ``offload_fsdp2_model_to_cpu``); PyTorch ``aten/src/ATen/native/TensorConversions.cpp`` (``_to_copy``:
    ``pin_out``).
    """
    source = context.source
    waits = context.backend is Backend.FSDP2 and source.since("0.6.0") and not source.since("0.9.1")
    return HostCopy.PAGEABLE if waits else HostCopy.PINNED


def _keeps_root(context: EngineContext) -> bool:
    """Releases before 0.6 are for torch 2.6."""
    return context.backend is Backend.FSDP2 and not context.source.since("0.6.0")


def _prefetches(context: EngineContext) -> bool:
    return context.backend is not Backend.FSDP2 or context.source.since("0.8.0")


def _separates_embedding(context: EngineContext) -> bool:
    second = context.backend is Backend.FSDP2
    return second and not context.model.tied_embeddings and context.source.since("0.7.1")


def _compute_dtype(context: EngineContext) -> DType:
    """The dtype of weights and activations inside a layer.

    0.6.1 and 0.7 take ``fsdp_config.dtype`` where ``mixed_precision`` is absent, for actor and reference.
    """
    source, role = context.source, context.role
    default = DType.BFLOAT16
    if role != "critic":
        default = source.dtype(f"{role}.fsdp.dtype", default=default)
    return source.dtype(f"{role}.fsdp.mixed_precision.param_dtype", default=default)


def _moment_dtype(context: EngineContext, stored: DType) -> DType:
    """AdamW's moments have the dtype of what it trains: the sharded weights, or adapters.

    peft makes adapters in float32, see :func:`casts_adapters`.
    """
    source, role = context.source, context.role
    if role == "ref":
        return DType.FLOAT32  # it has no optimizer
    adapters = lora_rank(source, role, Backend.FSDP) > 0
    return DType.FLOAT32 if adapters and not casts_adapters(source) else stored


def _keeps_loaded_experts(context: EngineContext) -> bool:
    """Whether the C library keeps the memory that experts were loaded with."""
    if context.model.moe is None:
        return False
    from tuner.trainers.verl.fields.loading import keeps_loaded_experts  # of few models

    return keeps_loaded_experts(context)


def _frees_root(context: EngineContext) -> bool:
    """Whether verl reshards the root unit after a forward-only pass.

    The engines do where ``fsdp_size`` is above 1, which its default of -1 is not. The legacy workers
    do for FSDP1's actor and reference, and since 0.6 for FSDP2's reference.
    """
    source, role = context.source, context.role
    if source.engine_workers:
        return _fsdp_size(context) > 1
    if context.backend is Backend.FSDP:
        return role != "critic"
    return role == "ref" and source.since("0.6.0")


# -- ranks that share weights, and ranks that share a sequence ---------------------------------


def _fsdp_size(context: EngineContext) -> int:
    meaning = f"{context.configured_role}.fsdp.fsdp_size"
    size = context.source.integer(meaning, default=-1, minimum=-1)
    if size == 0:
        raise context.source.error(meaning, _("expected -1 or a whole number >= 1, got 0"))
    return size


def _shard(context: EngineContext) -> int:
    size = _fsdp_size(context)
    return context.gpus if size < 0 else min(size, context.gpus)


def _set_shard(context: EngineContext, engine: Engine) -> Assignments:
    parallel = engine.parallel
    # a whole number keeps the engines freeing the root unit, -1 does not: see _frees_root
    counted = parallel.shard < parallel.gpus or (context.source.engine_workers and engine.frees_root)
    size = parallel.shard if counted else -1
    return ((f"{context.configured_role}.fsdp.fsdp_size", size),)


def _ulysses(context: EngineContext) -> int:
    size = context.source.integer(f"{context.role}.ulysses", default=1)
    if context.role == "critic":
        return size
    old = context.source.integer(_old_ulysses(context), default=1)
    return old if old > 1 else size


def _set_ulysses(context: EngineContext, engine: Engine) -> Assignments:
    """The deprecated key of actor and reference wins above 1, and the reference's follows the actor's."""
    source, role, ranks = context.source, context.role, engine.parallel.ulysses
    old = role != "critic" and source.key(_old_ulysses(context)) is not None
    if old and max(ranks, source.integer(_old_ulysses(context), default=1)) > 1:
        return ((_old_ulysses(context), ranks),)
    return ((f"{role}.ulysses", ranks),)


def _old_ulysses(context: EngineContext) -> str:
    return f"{context.role}.old_ulysses"


# -- the table ---------------------------------------------------------------------------------


def _streams(context: EngineContext) -> bool:
    second = context.backend is Backend.FSDP2
    return second and context.source.flag(f"{context.role}.fsdp.offload_policy")


def _set_streams(context: EngineContext, engine: Engine) -> Assignments:
    return ((f"{context.role}.fsdp.offload_policy", engine.streamed_offload),)


def _keeps_states(context: EngineContext) -> bool:
    return not _streams(context)


def _heeds_reshard(context: EngineContext) -> bool:
    """FSDP1 heeds the switch since 0.8.0, and the legacy workers' actor and reference since 0.7.0."""
    source = context.source
    legacy = source.since("0.7.0") and not source.engine_workers and context.role != "critic"
    return context.backend is Backend.FSDP2 or source.since("0.8.0") or legacy


def shares_prefetch(context: EngineContext) -> bool:
    """Whether the engine is built with the actor's switch, as the reference is up to 0.5."""
    return context.role == "ref" and not context.source.since("0.6.0")


def _prefetch(context: EngineContext) -> str:
    return f"{'actor' if shares_prefetch(context) else context.role}.fsdp.forward_prefetch"


def _defers(context: EngineContext) -> bool:
    """Whether gradients may be synchronised late: 0.9.0 always does, 0.9.1 on request."""
    return context.source.since("0.9.0")


def _fuses_layers(context: EngineContext) -> bool:
    architecture = find_architecture(context.model.architecture)
    return context.source.flag(f"{context.switches}.liger") and architecture.liger_layers


def _set_fused_layers(context: EngineContext, engine: Engine) -> Assignments:
    return ((f"{context.switches}.liger", engine.fused_layers),)


def _attention(context: EngineContext) -> Attention:
    return attention_of(context, ulysses=_ulysses(context))


def _set_attention(context: EngineContext, engine: Engine) -> Assignments:
    return ((f"{context.switches}.attention", attention_name(engine.attention)),)


def _finds_tower(context: EngineContext) -> bool:
    """Whether verl finds the vision tower that it is asked to freeze."""
    return find_architecture(context.model.architecture).verl_knows_tower


def fuses_optimizer(context: EngineContext) -> bool:
    """Whether a release hands options on to AdamW of PyTorch, which is what it builds where no key says more.

    Source: verl 0.6.1 to 0.9.1 ``workers/config/optimizer.py`` (``build_optimizer``); 0.6.0
    ``workers/fsdp_workers.py:523`` makes one without options.
    """
    source, role = context.source, context.role
    if role == "ref" or source.key(f"{role}.fused_optimizer") is None:
        return False
    usual = {"optimizer_package": "torch.optim", "optimizer": "AdamW"}
    return all(source.text(f"{role}.{name}", default=word) == word for name, word in usual.items())


def fused_optimizer(role: Role) -> Field[EngineContext]:
    """Whether one kernel makes the step of a tensor: ``fused`` of PyTorch's AdamW."""
    meaning = f"{role}.fused_optimizer"
    return Plain("fused_optimizer", meaning, FLAG, False, heeded=fuses_optimizer, otherwise=False)


_FROZEN_TOWER: Field[EngineContext] = Plain(
    "frozen_tower", "actor.frozen_tower", FLAG, False, heeded=_finds_tower, otherwise=False
)


def _default_dtype(role: Role, context: EngineContext) -> DType:
    """The dtype of a role's weights where no key has one."""
    low = role == "ref" or (role == "actor" and context.source.copy.stores_actor_low)
    return DType.BFLOAT16 if low else DType.FLOAT32


def _fields(role: Role) -> tuple[Field[EngineContext], ...]:
    switches, section = switches_of(role), f"{role}.fsdp"
    deferred = f"{section}.use_no_sync_for_gradient_accumulation"
    offload: dict[str, Any] = {"heeded": _keeps_states, "otherwise": False}
    return (
        BACKEND,
        Plain("packed", f"{switches}.packed", FLAG, lambda context: context.source.engine_workers),
        Ruled("fused_layers", _fuses_layers, _set_fused_layers),
        Ruled("attention", _attention, _set_attention),
        Plain("param_offload", f"{section}.param_offload", FLAG, False, **offload),
        Plain("optimizer_offload", f"{section}.optimizer_offload", FLAG, False, **offload),
        Plain("activation_offload", f"{switches}.activation_offload", FLAG, False),
        Ruled("parallel.shard", _shard, _set_shard),
        Ruled("parallel.ulysses", _ulysses, _set_ulysses),
        Plain(
            "checkpointing",
            f"{switches}.gradient_checkpointing",
            FULL_CHECKPOINTING,
            Checkpointing.FULL,
        ),
        Plain("stored_dtype", f"{section}.model_dtype", DTYPE, partial(_default_dtype, role)),
        Plain("reduce_dtype", f"{section}.mixed_precision.reduce_dtype", DTYPE, DType.FLOAT32),
        Ruled("streamed_offload", _streams, _set_streams),
        Plain(
            "reshard_after_forward",
            f"{section}.reshard_after_forward",
            FLAG,
            True,
            heeded=_heeds_reshard,
            otherwise=True,
        ),
        Plain("forward_prefetch", _prefetch, FLAG, False),
        Plain("deferred_gradient_sync", deferred, FLAG, True, heeded=_defers, otherwise=False),
        *((_FROZEN_TOWER,) if role == "actor" else ()),
        *((fused_optimizer(role),) if role != "ref" else ()),
    )


#: A reference has neither a backward pass nor an optimizer, and is offloaded whatever its keys say.
_FROZEN: Mapping[str, Any] = {
    "param_offload": False,
    "optimizer_offload": False,
    "activation_offload": False,
    "checkpointing": Checkpointing.NONE,
    "streamed_offload": True,
    "deferred_gradient_sync": False,
}

#: One that a copy of the trainer moves to the host by hand, where its key says so.
_FROZEN_BY_HAND = {name: value for name, value in _FROZEN.items() if name != "param_offload"} | {
    "streamed_offload": False
}

FSDP = {
    role: tuple(field for field in _fields(role) if role != "ref" or field.path not in _FROZEN)
    for role in ROLES
}


def _packs_shared(context: EngineContext) -> bool:
    return context.source.flag("model.packed") and _ulysses(context) > 1


def _set_packs_shared(context: EngineContext, engine: Engine) -> Assignments:
    return (("model.packed", engine.packed),)


def _offloads_units(context: EngineContext) -> bool:
    """FSDP1's own CPU offload. FSDP2 gets FSDP1's policy, which it does not know.

    Source: verl 0.7.0 ``trainer/fsdp_sft_trainer.py`` (``cpu_offload``, ``offload_policy``).
    """
    switches = ("actor.fsdp.cpu_offload", "actor.fsdp.offload_params")
    return context.backend is Backend.FSDP and all(map(context.source.flag, switches))


def _set_offloads_units(context: EngineContext, engine: Engine) -> Assignments:
    """Off: switched on it loses gradients, see ``checks/sharding/offload_drops_gradients.py``."""
    if engine.streamed_offload:
        raise ValueError("CPU offload is not to be proposed here")
    return (("actor.fsdp.cpu_offload", False),)


#: What the trainer of fine-tuning that has no engine decides otherwise.
_OWN: dict[str, Field[EngineContext]] = {
    "packed": Ruled("packed", _packs_shared, _set_packs_shared),
    "streamed_offload": Ruled("streamed_offload", _offloads_units, _set_offloads_units),
}
_BY_HAND = tuple(field for field in _fields("ref") if field.path not in _FROZEN_BY_HAND)
_OWN_FSDP = tuple(_OWN.get(field.path, field) for field in FSDP["actor"])


def fsdp_fields(source: ReleaseSettings, role: Role) -> tuple[Field[EngineContext], ...]:
    """The table of a role's engine under FSDP."""
    if role == "ref" and source.copy.reference_by_hand:
        return _BY_HAND
    return _OWN_FSDP if source.program is Program.SFT else FSDP[role]


def _fixed_fields(source: ReleaseSettings, role: Role) -> Mapping[str, Any]:
    """What stands in none of the fields of a role's table."""
    if role != "ref":
        return {}
    if source.copy.reference_by_key:
        return {**_FROZEN, "streamed_offload": source.flag("ref.fsdp.param_offload")}
    return _FROZEN_BY_HAND if source.copy.reference_by_hand else _FROZEN
