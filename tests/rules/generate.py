"""Random valid workloads, the same for the same seed."""

from collections.abc import Iterator
from random import Random

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.gpus import find_gpu
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.units import GIGA, MIB
from tuner.workload import (
    Actor,
    Backend,
    Batch,
    Batching,
    Checkpointing,
    Critic,
    Engine,
    FractionOf,
    HeadKind,
    Lora,
    OutputHead,
    Parallelism,
    Pass,
    Reference,
    Release,
    Rollout,
    RolloutEngine,
    Scaling,
    WeightSync,
    Workload,
)

MODELS = (
    "qwen2.5-0.5b",
    "qwen2.5-1.5b",
    "qwen2.5-7b",
    "qwen2.5-32b",
    "qwen3-8b",
    "qwen3-30b-a3b",
    "llama-3.1-8b",
    "llama-3.1-70b",
    "gemma-2-9b",
    "Mistral-Nemo-Instruct-2407",
)
GPUS = ("a100-sxm-40g", "a100-sxm-80g", "h100-sxm", "h200-sxm", "h20-sxm", "l40s", "rtx-4090", "b200-sxm")
FRACTIONS = {
    RolloutEngine.VLLM: FractionOf.TOTAL,
    RolloutEngine.SGLANG: FractionOf.STATIC_POOL,
    RolloutEngine.TENSORRT_LLM: FractionOf.FREE_AFTER_WEIGHTS,
}


def workloads(count: int, *, seed: int) -> Iterator[Workload]:
    """``count`` workloads over models, GPUs, sizes and switches."""
    random = Random(seed)
    for _ in range(count):
        yield _workload(random)


def _workload(random: Random) -> Workload:
    model = find_model(random.choice(MODELS))
    cluster = Cluster(
        gpu=find_gpu(random.choice(GPUS)),
        gpus_per_node=random.choice((1, 2, 4, 8)),
        nodes=random.choice((1, 1, 2, 4)),
        network_bytes_per_s=random.choice((12.5, 50.0)) * GIGA,
    )
    backend = random.choice((Backend.FSDP, Backend.FSDP2, Backend.FSDP2, Backend.MEGATRON))
    engine = _engine(random, model, cluster, backend)
    head = _head(random, backend)
    batch = _batch(random, engine, model)
    separate = engine.lora is None
    frozen = replace(
        engine,
        optimizer_offload=False,
        streamed_offload=separate and backend is not Backend.MEGATRON,
        param_offload=separate and backend is Backend.MEGATRON,
        lora=None if separate else engine.lora,
    )
    reference = Reference(engine=frozen, head=head, log_prob=_pass(random, batch), separate=separate)
    critic = Critic(
        model=model,
        engine=replace(engine, lora=None),
        update=_pass(random, batch),
        values=_pass(random, batch),
    )
    return Workload(
        release=Release(trainer="verl", version="0.9.1"),
        model=model,
        cluster=cluster,
        batch=batch,
        actor=Actor(
            engine=engine,
            head=head,
            update=_pass(random, batch, entropy=random.random() < 0.3),
            log_prob=_pass(random, batch, entropy=True) if random.random() < 0.9 else None,
        ),
        reference=reference if random.random() < 0.7 else None,
        critic=critic if random.random() < 0.3 else None,
        rollout=_rollout(random, model, cluster),
        sync=WeightSync(
            bucket_bytes=random.choice((512, 2048, 8192)) * MIB, gathers_whole_model=random.random() < 0.2
        ),
    )


def _engine(random: Random, model: ModelShape, cluster: Cluster, backend: Backend) -> Engine:
    megatron = backend is Backend.MEGATRON
    sizes = [size for size in (1, 2, 4, 8) if cluster.gpus % size == 0 and size <= cluster.gpus_per_node]
    heads = [size for size in sizes if model.heads % size == 0 and model.kv_heads % size == 0]
    lora = Lora(rank=64, parameters=model.parameters // 100) if random.random() < 0.15 else None
    return Engine(
        backend=backend,
        parallel=Parallelism(
            gpus=cluster.gpus,
            shard=1 if megatron else cluster.gpus,
            tensor=random.choice(heads) if megatron else 1,
            ulysses=1 if megatron else random.choice((1, 1, 1, *heads)),
        ),
        stored_dtype=DType.BFLOAT16
        if megatron
        else random.choice((DType.FLOAT32, DType.FLOAT32, DType.BFLOAT16)),
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=random.choice((Checkpointing.FULL, Checkpointing.FULL, Checkpointing.NONE)),
        packed=random.random() < 0.85,
        activation_offload=not megatron and random.random() < 0.2,
        param_offload=random.random() < 0.3,
        optimizer_offload=random.random() < 0.3,
        reshard_after_forward=random.random() < 0.8,
        forward_prefetch=random.random() < 0.3,
        deferred_gradient_sync=not megatron and random.random() < 0.2,
        separate_embedding_units=backend is Backend.FSDP2,
        fused_layers=random.random() < 0.3,
        lora=lora,
    )


def _head(random: Random, backend: Backend) -> OutputHead:
    return OutputHead(
        kind=random.choice((HeadKind.LOGITS, HeadKind.LOGITS, HeadKind.FUSED_TORCH)),
        compiled=backend is not Backend.MEGATRON and random.random() < 0.8,
        chunk_tokens=random.choice((None, None, None, 2048)),
        checkpointed=random.random() < 0.2,
        scaling=random.choice((Scaling.NONE, Scaling.COPY)),
        fusable=random.choice(((), (HeadKind.FUSED_TORCH,), (HeadKind.FUSED_TRITON,))),
    )


def _batch(random: Random, engine: Engine, model: ModelShape) -> Batch:
    responses = random.choice((1, 4, 8, 16))
    mini = engine.parallel.data * random.choice((1, 2, 8, 32))
    total = min(random.choice((1024, 2048, 4096, 16384, 32768)), model.max_positions)
    prompt = total // random.choice((2, 4, 8))
    return Batch(
        prompts=mini * random.choice((1, 1, 2, 4)) + random.choice((0, 0, 0, engine.parallel.data)),
        responses_per_prompt=responses,
        mini_batch_prompts=mini,
        epochs=random.choice((1, 1, 2)),
        max_prompt_tokens=prompt,
        max_response_tokens=total - prompt,
    )


def _pass(random: Random, batch: Batch, *, entropy: bool = False) -> Pass:
    return Pass(
        batching=Batching(
            dynamic=random.random() < 0.7,
            token_budget=random.choice((1, 2, 3, 8)) * batch.sequence_tokens,
            micro_batch_sequences=random.choice((1, 1, 2, 4)),
            hard_limit=random.random() < 0.7,
        ),
        entropy=entropy,
    )


def _rollout(random: Random, model: ModelShape, cluster: Cluster) -> Rollout:
    engine = random.choice(list(FRACTIONS))
    sizes = [size for size in (1, 2, 4, 8) if size <= cluster.gpus_per_node and model.heads % size == 0]
    return Rollout(
        engine=engine,
        memory_fraction=random.randrange(20, 95, 5) / 100,
        fraction_of=FRACTIONS[engine],
        tensor_parallel=random.choice(sizes),
        max_sequences=random.choice((64, 256, 1024, 2048)),
        max_batched_tokens=random.choice((1024, 8192)),
        max_model_tokens=random.choice((None, 32768)),
        cuda_graphs=random.random() < 0.8,
        capture_sizes=random.choice((None, None, (1, 2, 4, 8))),
        chunked_prefill=random.random() < 0.9,
        prefix_caching=random.random() < 0.9,
        frees_memory=random.random() < 0.9,
        log_stats=random.random() < 0.5,
        colocated=random.random() < 0.9,
        gpus=cluster.gpus,
    )
