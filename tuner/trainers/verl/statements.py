"""A workload as statements that verl has keys for: each field's value, and what to set for it."""

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

from tuner.dtypes import DType
from tuner.trainers.verl.source import Source
from tuner.units import MIB
from tuner.workload import (
    Backend,
    Batching,
    Checkpointing,
    Engine,
    HeadKind,
    OutputHead,
    Rollout,
    RolloutEngine,
    WeightSync,
    Workload,
)

Role = Literal["actor", "ref", "critic"]

_STRATEGIES = {Backend.FSDP: "fsdp", Backend.FSDP2: "fsdp2", Backend.MEGATRON: "megatron"}
_DTYPES = {DType.FLOAT32: "fp32", DType.BFLOAT16: "bf16", DType.FLOAT16: "fp16", DType.FLOAT8: "fp8"}
_FUSED = {HeadKind.FUSED_TORCH: "torch", HeadKind.FUSED_TRITON: "triton", HeadKind.FUSED_LIGER: "liger"}


class Statement(Struct, frozen=True, kw_only=True):
    """One field: its value, and the meanings to set to make it so, with their values."""

    field: str
    value: Any
    assignments: tuple[tuple[str, Any], ...]


def statements(source: Source, workload: Workload) -> Iterator[Statement]:
    """Every field that has a key. One that others follow by interpolation comes before them."""
    yield from _batch(workload)
    yield from _passes(source, workload)
    yield from _engine(source, "actor", workload.actor.engine)
    if workload.reference is not None and workload.reference.separate:
        yield from _engine(source, "ref", workload.reference.engine)
    if workload.critic is not None:
        yield from _engine(source, "critic", workload.critic.engine)
    yield from _head(source, workload.actor.head, workload.actor.engine)
    yield from _rollout(source, workload.rollout)
    yield from _sync(workload.sync)


def _plain(field: str, value: Any, meaning: str) -> Statement:
    return Statement(field=field, value=value, assignments=((meaning, value),))


def _batch(workload: Workload) -> Iterator[Statement]:
    for name in (
        "prompts",
        "responses_per_prompt",
        "mini_batch_prompts",
        "epochs",
        "max_prompt_tokens",
        "max_response_tokens",
    ):
        yield _plain(f"batch.{name}", getattr(workload.batch, name), f"batch.{name}")


# -- passes --------------------------------------------------------------------------------


def _passes(source: Source, workload: Workload) -> Iterator[Statement]:
    actor, reference, critic = workload.actor, workload.reference, workload.critic
    yield _plain("actor.entropy", actor.update.entropy, "actor.calculate_entropy")
    yield _plain("log_prob.absent", actor.log_prob is None, "bypass_old_log_prob")
    yield from _batching(source, "actor", actor.update.batching, actor.engine)
    if actor.log_prob is not None:
        yield from _batching(source, "log_prob", actor.log_prob.batching, actor.engine)
    if reference is not None:
        yield from _batching(source, "ref", reference.log_prob.batching, reference.engine)
    if critic is not None:
        yield from _batching(source, "critic", critic.update.batching, critic.engine)
        yield from _batching(source, "values", critic.values.batching, critic.engine)


def _batching(source: Source, role: str, batching: Batching, engine: Engine) -> Iterator[Statement]:
    owner = "values" if role == "critic" and source.v1_trainer else role
    yield _plain(f"{role}.token_budget", batching.token_budget, f"{owner}.token_budget")
    switch, size = f"{role}.dynamic", f"{role}.micro_batch"
    if role in ("critic", "values"):
        if source.engine_workers:
            section = f"critic.{_section(engine)}"
            infer = "infer_" if role == "values" else ""
            switch, size = f"{section}.use_dynamic_bsz", f"{section}.{infer}micro_batch_size_per_gpu"
        else:
            switch = "critic.dynamic"
    sized: tuple[tuple[str, Any], ...] = ((size, batching.micro_batch_sequences),)
    everywhere = f"{role}.global_micro_batch"
    if not source.engine_workers and source.value(everywhere) is not None:
        sized = (*sized, (everywhere, None))  # it would win, and verl refuses both
    yield Statement(
        field=f"{role}.dynamic",
        value=batching.dynamic,
        assignments=((switch, batching.dynamic), *(() if batching.dynamic else sized)),
    )
    yield Statement(field=f"{role}.micro_batch", value=batching.micro_batch_sequences, assignments=sized)


# -- engines -------------------------------------------------------------------------------


def _section(engine: Engine) -> str:
    return "megatron" if engine.backend is Backend.MEGATRON else "fsdp"


def _engine(source: Source, role: Role, engine: Engine) -> Iterator[Statement]:
    switches = "critic" if role == "critic" else "model"
    section = f"{role}.{_section(engine)}"
    yield Statement(
        field=f"{role}.backend",
        value=engine.backend,
        assignments=((f"{role}.strategy", _STRATEGIES[engine.backend]),),
    )
    yield _plain(f"{role}.packed", engine.packed, _packed(source, role, engine))
    yield _plain(f"{role}.fused_layers", engine.fused_layers, f"{switches}.liger")
    yield _plain(f"{role}.param_offload", engine.param_offload, f"{section}.param_offload")
    if role != "ref":  # a reference has neither an optimizer nor a backward pass
        yield _plain(f"{role}.optimizer_offload", engine.optimizer_offload, f"{section}.optimizer_offload")
        offloads = engine.activation_offload
        yield _plain(f"{role}.activation_offload", offloads, f"{switches}.activation_offload")
    if engine.backend is Backend.MEGATRON:
        yield from _megatron(role, engine)
    else:
        yield from _fsdp(source, role, engine, switches)


def _packed(source: Source, role: Role, engine: Engine) -> str:
    if engine.backend is Backend.MEGATRON and not source.engine_workers:
        return f"{'critic' if role == 'critic' else 'actor'}.megatron.use_remove_padding"
    return "critic.packed" if role == "critic" else "model.packed"


def _fsdp(source: Source, role: Role, engine: Engine, switches: str) -> Iterator[Statement]:
    parallel = engine.parallel
    size = -1 if parallel.shard == parallel.gpus else parallel.shard
    ulysses = f"{role}.ulysses"
    if role != "critic" and source.engine_workers:
        old = f"{role}.old_ulysses"  # wins above 1, and the reference's follows the actor's
        ulysses = old if max(parallel.ulysses, source.integer(old, default=1)) > 1 else ulysses
    checkpointing = engine.checkpointing is Checkpointing.FULL
    for field, value, meaning, setting in (
        ("shard", parallel.shard, f"{role}.fsdp.fsdp_size", size),
        ("ulysses", parallel.ulysses, ulysses, parallel.ulysses),
        ("checkpointing", engine.checkpointing, f"{switches}.gradient_checkpointing", checkpointing),
        ("stored_dtype", engine.stored_dtype, f"{role}.fsdp.model_dtype", _DTYPES[engine.stored_dtype]),
        (
            "reduce_dtype",
            engine.reduce_dtype,
            f"{role}.fsdp.mixed_precision.reduce_dtype",
            _DTYPES[engine.reduce_dtype],
        ),
    ):
        yield Statement(field=f"{role}.{field}", value=value, assignments=((meaning, setting),))
    for name, leaf in (
        ("streamed_offload", "offload_policy"),
        ("reshard_after_forward", "reshard_after_forward"),
        ("forward_prefetch", "forward_prefetch"),
        ("deferred_gradient_sync", "use_no_sync_for_gradient_accumulation"),
    ):
        yield _plain(f"{role}.{name}", getattr(engine, name), f"{role}.fsdp.{leaf}")


def _megatron(role: Role, engine: Engine) -> Iterator[Statement]:
    section, parallel = f"{role}.megatron", engine.parallel
    for name in ("tensor", "pipeline", "context", "expert", "expert_tensor"):
        leaf = (
            f"{name}_parallel_size" if name in ("context", "expert_tensor") else f"{name}_model_parallel_size"
        )
        yield _plain(f"{role}.{name}", getattr(parallel, name), f"{section}.{leaf}")
    if role == "ref":
        return
    distributed = engine.distributed_optimizer
    yield _plain(f"{role}.distributed_optimizer", distributed, f"{section}.use_distributed_optimizer")
    fraction = engine.optimizer_offload_fraction
    yield Statement(
        field=f"{role}.optimizer_offload_fraction",
        value=fraction,
        assignments=(
            (f"{role}.optimizer_cpu_offload", fraction > 0),
            (f"{role}.optimizer_offload_fraction", fraction),
        ),
    )
    granularity = None if engine.checkpointing is Checkpointing.NONE else engine.checkpointing.value
    recompute = f"{section}.override_transformer_config.recompute"
    whole = ((f"{recompute}_method", "uniform"), (f"{recompute}_num_layers", 1))  # full demands both
    yield Statement(
        field=f"{role}.checkpointing",
        value=engine.checkpointing,
        assignments=(
            (f"{recompute}_granularity", granularity),
            *(whole if engine.checkpointing is Checkpointing.FULL else ()),
        ),
    )


# -- head ----------------------------------------------------------------------------------


def _head(source: Source, head: OutputHead, engine: Engine) -> Iterator[Statement]:
    fused = _FUSED.get(head.kind)
    backend = () if fused is None or engine.backend is Backend.MEGATRON else (("model.fused_backend", fused),)
    yield Statement(
        field="head.kind", value=head.kind, assignments=(("model.fused_head", fused is not None), *backend)
    )
    yield _plain("head.compiled", head.compiled, "actor.torch_compile")
    yield _plain("head.checkpointed", head.checkpointed, "actor.entropy_checkpointing")
    switch, size = "actor.entropy_chunking", "actor.fsdp.entropy_from_logits_chunk_size"
    if engine.backend is Backend.MEGATRON:
        switch = "actor.megatron.entropy_from_logits_with_chunking"
        size = "actor.megatron.entropy_from_logits_chunk_size"
    sizes = () if head.chunk_tokens is None or source.key(size) is None else ((size, head.chunk_tokens),)
    yield Statement(
        field="head.chunk_tokens",
        value=head.chunk_tokens,
        assignments=((switch, head.chunk_tokens is not None), *sizes),
    )


# -- rollout -------------------------------------------------------------------------------


def _rollout(source: Source, rollout: Rollout) -> Iterator[Statement]:
    alone = not rollout.colocated and source.value("rollout.standalone_fraction") is not None
    fraction = "standalone_fraction" if alone else "memory_fraction"
    yield _plain("rollout.memory_fraction", rollout.memory_fraction, f"rollout.{fraction}")
    for name in (
        "tensor_parallel",
        "data_parallel",
        "pipeline_parallel",
        "expert_parallel",
        "max_sequences",
        "max_batched_tokens",
        "max_model_tokens",
        "chunked_prefill",
        "prefix_caching",
    ):
        yield _plain(f"rollout.{name}", getattr(rollout, name), f"rollout.{name}")
    sizes = None if rollout.capture_sizes is None else list(rollout.capture_sizes)
    graphs, stats = rollout.cuda_graphs, rollout.log_stats
    for field, value, meaning, setting in (
        ("frees_memory", rollout.frees_memory, "rollout.free_cache", rollout.frees_memory),
        ("capture_sizes", rollout.capture_sizes, "rollout.capture_sizes", sizes),
        ("log_stats", stats, "rollout.disable_log_stats", not stats),
    ):
        yield Statement(field=f"rollout.{field}", value=value, assignments=((meaning, setting),))
    unused = "rollout.unused_free_cache"
    yield Statement(
        field="rollout.cuda_graphs",
        value=graphs,
        assignments=(
            ("rollout.enforce_eager", not graphs),
            *(((unused, False),) if graphs and source.key(unused) is not None else ()),
        ),
    )
    yield from _quantised(rollout)


def _quantised(rollout: Rollout) -> Iterator[Statement]:
    """Formats that the engine is told by its own arguments; only fp8 and "as the weights" can be."""
    weights = "fp8" if rollout.weight_dtype is DType.FLOAT8 else None
    yield Statement(
        field="rollout.weight_dtype",
        value=rollout.weight_dtype,
        assignments=(("rollout.quantization", weights),),
    )
    if rollout.engine in (RolloutEngine.VLLM, RolloutEngine.SGLANG):
        eight_bits = "fp8" if rollout.engine is RolloutEngine.VLLM else "fp8_e5m2"
        yield Statement(
            field="rollout.kv_dtype",
            value=rollout.kv_dtype,
            assignments=(
                (
                    f"rollout.{rollout.engine.value}_kv_dtype",
                    eight_bits if rollout.kv_dtype is DType.FLOAT8 else "auto",
                ),
            ),
        )


def _sync(sync: WeightSync) -> Iterator[Statement]:
    yield Statement(
        field="sync.bucket_bytes",
        value=sync.bucket_bytes,
        assignments=(("sync.bucket_megabytes", sync.bucket_bytes // MIB),),
    )
    gathers = sync.gathers_whole_model
    yield Statement(
        field="sync.gathers_whole_model",
        value=gathers,
        assignments=(("rollout.layered_summon", not gathers),),
    )
