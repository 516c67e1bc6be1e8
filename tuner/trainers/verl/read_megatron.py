"""Reads a Megatron engine: its grid, its dtypes and what it recomputes and offloads."""

from tuner.dtypes import DType
from tuner.trainers.verl.read_lora import megatron_lora
from tuner.trainers.verl.source import EngineSource, Role, Source
from tuner.workload import Backend, Checkpointing, Engine, Parallelism


def read_megatron(given: EngineSource) -> Engine:
    """A Megatron engine.

    Raises:
        InputError: the parallel sizes exceed the GPUs.
    """
    source, role = given.source, given.role
    fraction = 0.0
    if role != "ref" and source.flag(f"{role}.optimizer_cpu_offload"):
        fraction = source.number(f"{role}.optimizer_offload_fraction", default=0.0, minimum=0.0, maximum=1.0)
    dtype = source.dtype(f"{_megatron_dtype_role(source, role)}.megatron.dtype", default=DType.BFLOAT16)
    moments = DType.FLOAT32
    if role != "ref" and source.flag(f"{role}.precision_aware"):
        moments = source.dtype(f"{role}.moment_dtype", default=DType.FLOAT32)
    return Engine(
        backend=Backend.MEGATRON,
        parallel=_megatron_parallel(given),
        stored_dtype=dtype,
        compute_dtype=dtype,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=moments,
        checkpointing=Checkpointing.NONE if role == "ref" else _recompute(source, role),
        packed=_megatron_packed(given),
        param_offload=source.flag(f"{role}.megatron.param_offload"),
        optimizer_offload=role != "ref" and source.flag(f"{role}.megatron.optimizer_offload"),
        optimizer_offload_fraction=fraction,
        distributed_optimizer=role == "ref"
        or source.flag(f"{role}.megatron.use_distributed_optimizer", default=True),
        lora=None if role == "ref" else megatron_lora(given),
    )


def _megatron_dtype_role(source: Source, role: Role) -> Role:
    # the legacy workers run actor and reference in the actor's dtype
    return "actor" if role == "ref" and not source.engine_workers else role


def _megatron_parallel(given: EngineSource) -> Parallelism:
    """The grid of one role; the legacy workers put the reference on the actor's grid."""
    source, gpus = given.source, given.gpus
    role: Role = "actor" if given.role == "ref" and not source.engine_workers else given.role
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
    return Parallelism(
        gpus=gpus,
        tensor=tensor,
        pipeline=pipeline,
        context=context,
        expert=expert,
        expert_tensor=expert_tensor,
    )


def _megatron_packed(given: EngineSource) -> bool:
    """Megatron packs always up to 0.6, by its own switch in 0.7.1, by the model's later."""
    source, role = given.source, given.role
    if source.engine_workers:
        return source.flag(f"{given.model_section}.packed", default=True)
    return source.flag(
        f"{'critic' if role == 'critic' else 'actor'}.megatron.use_remove_padding", default=True
    )


def _recompute(source: Source, role: Role) -> Checkpointing:
    """Recomputation of a Megatron model; 0.4.1 has switches of its own that win when enabled."""
    legacy = "critic" if role == "critic" else "model"
    meaning = f"{role}.megatron.override_transformer_config.recompute_granularity"
    if not source.since("0.5.0") and source.flag(f"{legacy}.gradient_checkpointing"):
        meaning = f"{legacy}.megatron_recompute"
    granularity = source.choice(meaning, ("full", "selective"), default="none")
    return Checkpointing(granularity)
