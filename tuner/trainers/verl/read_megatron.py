"""Reads a Megatron engine: its grid, its dtypes and what it recomputes and offloads."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tuner.architectures import Architecture, find_architecture
from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.trainers.verl.read_lora import megatron_lora
from tuner.trainers.verl.source import EngineSource, Role, Source
from tuner.workload import Backend, Checkpointing, Engine, Parallelism


def read_megatron(given: EngineSource) -> Engine:
    """A Megatron engine.

    Raises:
        InputError: the parallel sizes exceed the GPUs.
    """
    source, role = given.source, given.role
    dtype = source.dtype(f"{_configured_role(source, role)}.megatron.dtype", default=DType.BFLOAT16)
    frozen = Engine(
        backend=Backend.MEGATRON,
        parallel=_megatron_parallel(given),
        stored_dtype=dtype,
        compute_dtype=dtype,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.NONE,
        packed=_megatron_packed(given),
        fused_layers=_fuses(given, "bias_activation_fusion", elsewhere=given.model.moe is not None),
        fused_rotary=_fuses(given, "apply_rope_fusion", elsewhere=False),
        param_offload=source.flag(f"{role}.megatron.param_offload"),
    )
    if role == "ref":
        return frozen
    return replace(
        frozen,
        reduce_dtype=_gradient_dtype(source, role, dtype),
        frees_stage_outputs=source.flag(
            f"{role}.megatron.override_transformer_config.deallocate_pipeline_outputs",
            default=_through_bridge(source, role),
        ),
        optimizer_offload=source.flag(f"{role}.megatron.optimizer_offload"),
        distributed_optimizer=source.flag(f"{role}.megatron.use_distributed_optimizer", default=True),
        lora=megatron_lora(given),
        **_optimizer(source, role, dtype),
        **_recomputation(source, role),
    )


def _optimizer(source: Source, role: Role, dtype: DType) -> dict[str, Any]:
    """What the optimizer of an actor or critic keeps, in which dtypes, and how much of it on the host.

    A precision-aware optimizer keeps of a bfloat16 weight's main weight only the lower half; one that
    lives in part on the host keeps whole main weights. float16 always has one, with whole weights.
    """
    on_host = source.flag(f"{role}.optimizer_cpu_offload")
    chosen = source.flag(f"{role}.precision_aware")
    precise = chosen or source.flag(f"{role}.override_precision_aware") or dtype is DType.FLOAT16
    halves = precise and not on_host and dtype is DType.BFLOAT16
    fraction = source.number(f"{role}.optimizer_offload_fraction", default=0.0, minimum=0.0, maximum=1.0)
    return {
        "optimizer_dtype": source.dtype(f"{role}.moment_dtype", default=DType.FLOAT32)
        if chosen
        else DType.FLOAT32,
        "main_weight_bytes": (DType.BFLOAT16 if halves else DType.FLOAT32).bytes,
        "main_weights_offloaded": precise,
        "optimizer_offload_fraction": fraction if on_host else 0.0,
        "fused_weight_gradients": source.flag(
            f"{role}.megatron.override_transformer_config.gradient_accumulation_fusion",
            default=_through_bridge(source, role),
        ),
    }


def _through_bridge(source: Source, role: Role) -> bool:
    """Whether Megatron-Bridge builds the model: since 0.7.1 where it is chosen over mbridge."""
    if source.key(f"{role}.megatron.vanilla_mbridge") is None:
        return False
    return source.flag(f"{role}.megatron.use_mbridge", default=True) and not source.flag(
        f"{role}.megatron.vanilla_mbridge", default=not source.since("0.9.0")
    )


def _gradient_dtype(source: Source, role: Role, dtype: DType) -> DType:
    """The gradient buffer: float32, but what Megatron-Bridge builds in 0.7.1 and 0.8 follows the weights.

    Since 0.9 a precision-aware optimizer says it; an override wins everywhere.
    """
    override = f"{role}.megatron.override_ddp_config.grad_reduce_in_fp32"
    low = _through_bridge(source, role) and not source.since("0.9.0")
    if source.flag(f"{role}.precision_aware"):
        low = source.dtype(f"{role}.main_grads_dtype", default=DType.FLOAT32) is not DType.FLOAT32
    return DType.FLOAT32 if source.flag(override, default=not low) else dtype


#: Whether a converter of Megatron-Bridge turns a fusion on, by the switch that overrides it.
_BRIDGE_FUSES: dict[str, Callable[[Architecture], bool]] = {
    "bias_activation_fusion": lambda architecture: architecture.bridge_fuses_activation,
    "apply_rope_fusion": lambda architecture: architecture.bridge_fuses_rotary,
}


def _fuses(given: EngineSource, switch: str, *, elsewhere: bool) -> bool:
    """Whether a fusion of the layers is on: by an override, by the bridge's converter, or ``elsewhere``.

    verl's own converters and mbridge fuse SwiGLU for sparse models, and rotate in plain operations.
    """
    source, model = given.source, given.model
    role = _configured_role(source, given.role)
    by_bridge = _BRIDGE_FUSES[switch](find_architecture(model.architecture))
    default = by_bridge if _through_bridge(source, role) else elsewhere
    return source.flag(f"{role}.megatron.override_transformer_config.{switch}", default=default)


def _configured_role(source: Source, role: Role) -> Role:
    """The role whose keys configure a model; the legacy workers build the reference as they do the actor."""
    return "actor" if role == "ref" and not source.engine_workers else role


def _megatron_parallel(given: EngineSource) -> Parallelism:
    """The grid of one role; the legacy workers put the reference on the actor's grid."""
    source, gpus = given.source, given.gpus
    role = _configured_role(source, given.role)
    tensor = source.integer(f"{role}.megatron.tensor_model_parallel_size", default=1)
    pipeline = source.integer(f"{role}.megatron.pipeline_model_parallel_size", default=1)
    context = source.integer(f"{role}.megatron.context_parallel_size", default=1)
    expert = source.integer(f"{role}.megatron.expert_model_parallel_size", default=1)
    expert_tensor = source.integer(f"{role}.megatron.expert_tensor_parallel_size", default=tensor)
    if tensor * pipeline * context > gpus or expert * expert_tensor * pipeline > gpus:
        raise source.error(
            f"{role}.megatron.tensor_model_parallel_size",
            f"tensor {tensor} x pipeline {pipeline} x context {context} "
            f"(experts: {expert} x {expert_tensor} x {pipeline}) need more than the {gpus} GPUs of the job",
            hint="lower the parallel sizes, or set trainer.n_gpus_per_node and trainer.nnodes",
        )
    first, last = _end_stages(source, role, given.model, pipeline)
    virtual = source.integer(f"{role}.megatron.virtual_pipeline_model_parallel_size", default=1)
    return Parallelism(
        gpus=gpus,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        expert_tensor=expert_tensor,
        virtual_pipeline=virtual if pipeline > 1 else 1,
        first_stage_layers=first,
        last_stage_layers=last,
    )


def _end_stages(
    source: Source, role: Role, model: ModelShape, pipeline: int
) -> tuple[int | None, int | None]:
    """Layers of the first and of the last pipeline stage, None where they are dealt out like the others.

    Embedding and loss can also be asked to count as a layer each.
    """
    if pipeline == 1:
        return None, None
    prefix = f"{role}.megatron.override_transformer_config"
    embedding = source.flag(f"{prefix}.account_for_embedding_in_pipeline_split")
    loss = source.flag(f"{prefix}.account_for_loss_in_pipeline_split")
    if embedding or loss:
        each = -(-(model.layers + embedding + loss) // pipeline)
        return each - embedding, each - loss
    first = source.integer(f"{prefix}.num_layers_in_first_pipeline_stage")
    return first, source.integer(f"{prefix}.num_layers_in_last_pipeline_stage")


def _megatron_packed(given: EngineSource) -> bool:
    """Megatron packs always up to 0.6, by its own switch in 0.7.1, by the model's later."""
    source, role = given.source, given.role
    if source.engine_workers:
        return source.flag(f"{given.model_section}.packed", default=True)
    return source.flag(
        f"{'critic' if role == 'critic' else 'actor'}.megatron.use_remove_padding", default=True
    )


def _recomputation(source: Source, role: Role) -> dict[str, Any]:
    """What is recomputed: all layers of a stage in groups (uniform), or the first ones (block)."""
    kind = _recompute(source, role)
    prefix = f"{role}.megatron.override_transformer_config.recompute"
    if kind is not Checkpointing.FULL or source.key(f"{prefix}_method") is None:
        return {"checkpointing": kind}
    method = source.choice(f"{prefix}_method", ("uniform", "block"), default="uniform")
    count = source.integer(f"{prefix}_num_layers", default=1, minimum=0)
    if method == "block":
        return {"checkpointing": kind, "recompute_first_layers": count}
    return {"checkpointing": kind, "recompute_layers": max(1, count)}


def _recompute(source: Source, role: Role) -> Checkpointing:
    """Recomputation of a Megatron model; 0.4.1 has switches of its own that win when enabled."""
    legacy = "critic" if role == "critic" else "model"
    meaning = f"{role}.megatron.override_transformer_config.recompute_granularity"
    if not source.since("0.5.0") and source.flag(f"{legacy}.gradient_checkpointing"):
        meaning = f"{legacy}.megatron_recompute"
    granularity = source.choice(meaning, ("full", "selective"), default="none")
    return Checkpointing(granularity)
