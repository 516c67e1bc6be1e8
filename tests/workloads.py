"""Realistic workloads, built by hand, for every test that needs one.

They depend on no profile, no trainer key and no file. Change one with the ``with_...`` methods of
:class:`~tuner.workload.Workload` or with ``msgspec.structs.replace``.
"""

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.hardware import Cluster, Gpu
from tuner.model_shape import MixtureOfExperts, ModelShape, QueryKeyNorm
from tuner.trainers.verl.batch_fields import TOKEN_BYTES
from tuner.units import GIB, GIGA, MIB, TERA
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
    WeightSync,
    Workload,
)

H100 = Gpu(
    name="h100-sxm",
    vendor="nvidia",
    architecture="sm_90",
    memory_bytes=81559 * MIB,
    memory_bytes_per_s=3.35 * TERA,
    dense_bf16_flop_per_s=989.4 * TERA,
    dense_fp8_flop_per_s=1978.9 * TERA,
    link_bytes_per_s=450 * GIGA,
    host_bytes_per_s=64 * GIGA,
    source="datasheet",
)

H200 = replace(H100, name="h200-sxm", memory_bytes=143771 * MIB, memory_bytes_per_s=4.8 * TERA)

QWEN25_0_5B = ModelShape(
    name="qwen2.5-0.5b",
    architecture="qwen2",
    hidden=896,
    layers=24,
    heads=14,
    kv_heads=2,
    head_dim=64,
    intermediate=4864,
    vocab=151936,
    tied_embeddings=True,
    max_positions=32768,
    qkv_bias=True,
)

QWEN25_7B = ModelShape(
    name="qwen2.5-7b",
    architecture="qwen2",
    hidden=3584,
    layers=28,
    heads=28,
    kv_heads=4,
    head_dim=128,
    intermediate=18944,
    vocab=152064,
    tied_embeddings=False,
    max_positions=32768,
    qkv_bias=True,
)

QWEN25_32B = ModelShape(
    name="qwen2.5-32b",
    architecture="qwen2",
    hidden=5120,
    layers=64,
    heads=40,
    kv_heads=8,
    head_dim=128,
    intermediate=27648,
    vocab=152064,
    tied_embeddings=False,
    max_positions=32768,
    qkv_bias=True,
)

QWEN3_30B_A3B = ModelShape(
    name="qwen3-30b-a3b",
    architecture="qwen3_moe",
    hidden=2048,
    layers=48,
    heads=32,
    kv_heads=4,
    head_dim=128,
    intermediate=6144,
    vocab=151936,
    tied_embeddings=False,
    max_positions=40960,
    qk_norm=QueryKeyNorm.PER_HEAD,
    moe=MixtureOfExperts(experts=128, experts_per_token=8, expert_intermediate=768),
)


def cluster(*, gpu: Gpu = H100, gpus_per_node: int = 8, nodes: int = 1) -> Cluster:
    """Machines with NVLink inside and 400 Gbit/s per GPU between them."""
    return Cluster(gpu=gpu, gpus_per_node=gpus_per_node, nodes=nodes, network_bytes_per_s=50 * GIGA)


def fsdp_engine(*, gpus: int, ulysses: int = 1, backend: Backend = Backend.FSDP2) -> Engine:
    """Fully sharded, fp32 weights, bf16 compute, fp32 reduction, full checkpointing, packed."""
    return Engine(
        token_bytes=TOKEN_BYTES,
        backend=backend,
        parallel=Parallelism(gpus=gpus, shard=gpus, ulysses=ulysses),
        stored_dtype=DType.FLOAT32,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.FULL,
        packed=True,
    )


def megatron_engine(
    *, gpus: int, tensor: int, pipeline: int = 1, context: int = 1, expert: int = 1
) -> Engine:
    """bf16 weights, fp32 gradients and optimizer sharded over data parallelism, full recomputation."""
    return Engine(
        token_bytes=TOKEN_BYTES,
        backend=Backend.MEGATRON,
        parallel=Parallelism(gpus=gpus, tensor=tensor, pipeline=pipeline, context=context, expert=expert),
        stored_dtype=DType.BFLOAT16,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.FULL,
        packed=True,
    )


def dynamic(tokens: int, *, entropy: bool = False) -> Pass:
    """A pass whose micro-batches are filled up to ``tokens`` per GPU."""
    return Pass(
        batching=Batching(dynamic=True, token_budget=tokens, micro_batch_sequences=1), entropy=entropy
    )


def static(sequences: int, *, entropy: bool = False) -> Pass:
    """A pass whose micro-batches hold ``sequences`` per data-parallel rank."""
    return Pass(
        batching=Batching(dynamic=False, token_budget=16384, micro_batch_sequences=sequences), entropy=entropy
    )


def rollout(*, gpus: int, tensor_parallel: int) -> Rollout:
    """VLLM on the trainer's GPUs, half of the card, limits as a release ships them."""
    return Rollout(
        engine=RolloutEngine.VLLM,
        memory_fraction=0.5,
        fraction_of=FractionOf.TOTAL,
        tensor_parallel=tensor_parallel,
        max_sequences=1024,
        max_batched_tokens=8192,
        max_model_tokens=8192,
        cuda_graphs=True,
        gpus=gpus,
    )


def _grpo(
    model: ModelShape,
    machines: Cluster,
    *,
    engine: Engine,
    reference_engine: Engine,
    rollout_tensor: int,
) -> Workload:
    head = OutputHead(kind=HeadKind.LOGITS)
    return Workload(
        release=Release(trainer="verl", version="0.9.1"),
        model=model,
        cluster=machines,
        batch=Batch(
            prompts=512,
            responses_per_prompt=8,
            mini_batch_prompts=128,
            epochs=1,
            max_prompt_tokens=1024,
            max_response_tokens=3072,
        ),
        actor=Actor(engine=engine, head=head, update=dynamic(16384), log_prob=dynamic(16384, entropy=True)),
        reference=Reference(engine=reference_engine, head=head, log_prob=dynamic(16384)),
        critic=None,
        rollout=rollout(gpus=machines.gpus, tensor_parallel=rollout_tensor),
        sync=WeightSync(bucket_bytes=2 * GIB, gathers_whole_model=False),
    )


def grpo_7b(*, gpu: Gpu = H100, gpus_per_node: int = 8, nodes: int = 1) -> Workload:
    """GRPO of a dense 7B model, FSDP2, streamed reference, two GPUs per rollout replica."""
    machines = cluster(gpu=gpu, gpus_per_node=gpus_per_node, nodes=nodes)
    engine = fsdp_engine(gpus=machines.gpus)
    return _grpo(
        QWEN25_7B,
        machines,
        engine=engine,
        reference_engine=replace(engine, streamed_offload=True),
        rollout_tensor=min(2, gpus_per_node),
    )


def grpo_0_5b(*, gpu: Gpu = H100, gpus_per_node: int = 8, nodes: int = 1) -> Workload:
    """GRPO of a 0.5B model with tied embeddings, one GPU per rollout replica."""
    machines = cluster(gpu=gpu, gpus_per_node=gpus_per_node, nodes=nodes)
    engine = fsdp_engine(gpus=machines.gpus)
    return _grpo(QWEN25_0_5B, machines, engine=engine, reference_engine=engine, rollout_tensor=1)


def grpo_lora_7b(*, gpu: Gpu = H100, gpus_per_node: int = 8, nodes: int = 1) -> Workload:
    """GRPO of rank-64 adapters on a 7B model; the reference is the actor without them."""
    workload = grpo_7b(gpu=gpu, gpus_per_node=gpus_per_node, nodes=nodes)
    engine = replace(
        workload.actor.engine,
        stored_dtype=DType.BFLOAT16,
        lora=Lora(rank=64, parameters=161_480_704),
    )
    return replace(
        workload.with_actor(engine=engine).with_reference(engine=engine, separate=False),
        sync=replace(workload.sync, gathers_whole_model=True),
    )


def ppo_7b(*, gpu: Gpu = H100, gpus_per_node: int = 8, nodes: int = 1) -> Workload:
    """PPO of a 7B model with a critic of the same size."""
    workload = grpo_7b(gpu=gpu, gpus_per_node=gpus_per_node, nodes=nodes)
    engine = workload.actor.engine
    critic = Critic(model=workload.model, engine=engine, update=dynamic(32768), values=dynamic(32768))
    return replace(workload, critic=critic)


def grpo_32b_megatron(*, gpu: Gpu = H100, gpus_per_node: int = 8, nodes: int = 4) -> Workload:
    """GRPO of a dense 32B model on Megatron: tensor 4, pipeline 2."""
    machines = cluster(gpu=gpu, gpus_per_node=gpus_per_node, nodes=nodes)
    engine = megatron_engine(gpus=machines.gpus, tensor=4, pipeline=2)
    return _grpo(
        QWEN25_32B,
        machines,
        engine=engine,
        reference_engine=replace(engine, param_offload=True),
        rollout_tensor=4,
    )


def grpo_moe_30b(*, gpu: Gpu = H100, gpus_per_node: int = 8, nodes: int = 2) -> Workload:
    """GRPO of a 30B mixture of experts (3B active) on Megatron: tensor 2, expert 8."""
    machines = cluster(gpu=gpu, gpus_per_node=gpus_per_node, nodes=nodes)
    engine = megatron_engine(gpus=machines.gpus, tensor=2, expert=8)
    return _grpo(
        QWEN3_30B_A3B,
        machines,
        engine=engine,
        reference_engine=replace(engine, param_offload=True),
        rollout_tensor=4,
    )


ALL = (grpo_7b, grpo_0_5b, grpo_lora_7b, ppo_7b, grpo_32b_megatron, grpo_moe_30b)
