"""Valid workloads over models, GPUs, sizes and switches.

What they are made of is drawn by whoever makes them: ``workloads`` draws the same ones for the same seed,
and ``any_workload`` has hypothesis draw, which looks for a small workload once it has found one that breaks a
law. The first of the values that a choice is made from is the one that says least.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import Protocol, TypeVar

from hypothesis import strategies as st
from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.gpus import find_gpu
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.trainers.verl.batch_fields import TOKEN_BYTES
from tuner.units import GIGA, MIB
from tuner.workload import (
    Actor,
    Attention,
    Backend,
    Batch,
    Batching,
    Checkpointing,
    Critic,
    Engine,
    FractionOf,
    GroupFilter,
    HeadKind,
    Lora,
    OutputHead,
    Parallelism,
    Pass,
    Reference,
    Release,
    Rollout,
    RolloutEngine,
    Saving,
    Scaling,
    SecondFsdp,
    Service,
    ServiceRole,
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
model_named, gpu_named = cache(find_model), cache(find_gpu)  # each is read once
FRACTIONS = {
    RolloutEngine.VLLM: FractionOf.TOTAL,
    RolloutEngine.SGLANG: FractionOf.STATIC_POOL,
    RolloutEngine.TENSORRT_LLM: FractionOf.FREE_AFTER_WEIGHTS,
}


_SECOND = SecondFsdp(
    keeps_root=False,
    frees_root=False,
    prefetch_effective=True,
    separate_embedding_units=True,
    reshard_after_forward=True,
)

T = TypeVar("T")


class Draw(Protocol):
    """Where the values of a workload come from."""

    def choice(self, values: Sequence[T]) -> T:
        """One of the values; what is to come more often stands there more often."""

    def chance(self, share: float) -> bool:
        """True in about this share of all workloads."""


class Seeded:
    """The same values for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def choice(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def chance(self, share: float) -> bool:
        return self._random.random() < share


PARTS = 20  # in which a share is drawn


class Drawn:
    """Values that hypothesis draws, in ways that it can shrink.

    Each value is drawn from places of its own. From equal places hypothesis would copy values to one another,
    and most workloads would be near copies of others.
    """

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._count = 0

    def choice(self, values: Sequence[T]) -> T:
        self._count += 1
        _, place = self._draw(st.sampled_from([(self._count, place) for place in range(len(values))]))
        return values[place]

    def chance(self, share: float) -> bool:
        times = round(share * PARTS)
        usual, unusual = (True, False) if share > 0.5 else (False, True)  # what is usual says least
        most = max(times, PARTS - times)
        return self.choice([usual] * most + [unusual] * (PARTS - most))


def workloads(count: int, *, seed: int) -> Iterator[Workload]:
    """``count`` workloads, the same for the same seed."""
    values, further, rare = Seeded(seed), Seeded(seed), Seeded(seed)  # apart, so that none moves another
    for _ in range(count):
        yield _with_rare(rare, _with_further(further, _workload(values)))


@st.composite
def any_workload(draw: st.DrawFn) -> Workload:
    """Any of the workloads."""
    values = Drawn(draw)
    return _with_rare(values, _with_further(values, _workload(values)))


def _workload(draw: Draw) -> Workload:
    model = model_named(draw.choice(MODELS))
    cluster = Cluster(
        gpu=gpu_named(draw.choice(GPUS)),
        gpus_per_node=draw.choice((1, 2, 4, 8)),
        nodes=draw.choice((1, 1, 2, 4)),
        network_bytes_per_s=draw.choice((12.5, 50.0)) * GIGA,
    )
    backend = draw.choice((Backend.FSDP, Backend.FSDP2, Backend.FSDP2, Backend.MEGATRON))
    engine = _engine(draw, model, cluster, backend)
    head = _head(draw, backend)
    batch = _batch(draw, engine, model)
    separate = engine.lora is None
    frozen = replace(
        engine,
        optimizer_offload=False,
        streamed_offload=separate and backend is not Backend.MEGATRON,
        param_offload=separate and backend is Backend.MEGATRON,
        lora=None if separate else engine.lora,
    )
    reference = Reference(engine=frozen, head=head, log_prob=_pass(draw, batch), separate=separate)
    critic = Critic(
        model=model,
        engine=replace(engine, lora=None),
        update=_pass(draw, batch),
        values=_pass(draw, batch),
    )
    return Workload(
        release=Release(trainer="verl", version="0.9.1"),
        model=model,
        cluster=cluster,
        batch=batch,
        actor=Actor(
            engine=engine,
            head=head,
            update=_pass(draw, batch, entropy=draw.chance(0.3)),
            log_prob=_pass(draw, batch, entropy=True) if draw.chance(0.9) else None,
        ),
        reference=reference if draw.chance(0.7) else None,
        critic=critic if draw.chance(0.3) else None,
        rollout=_rollout(draw, model, cluster),
        sync=WeightSync(
            bucket_bytes=draw.choice((512, 2048, 8192)) * MIB, gathers_whole_model=draw.chance(0.2)
        ),
    )


def _engine(draw: Draw, model: ModelShape, cluster: Cluster, backend: Backend) -> Engine:
    megatron = backend is Backend.MEGATRON
    sizes = [size for size in (1, 2, 4, 8) if cluster.gpus % size == 0 and size <= cluster.gpus_per_node]
    heads = [size for size in sizes if model.heads % size == 0 and model.kv_heads % size == 0]
    lora = Lora(rank=64, parameters=model.parameters // 100) if draw.chance(0.15) else None
    return Engine(
        token_bytes=TOKEN_BYTES,
        backend=backend,
        parallel=Parallelism(
            gpus=cluster.gpus,
            shard=1 if megatron else cluster.gpus // (2 if cluster.nodes > 1 and draw.chance(0.2) else 1),
            tensor=draw.choice(heads) if megatron else 1,
            ulysses=1 if megatron else draw.choice((1, 1, 1, *heads)),
        ),
        stored_dtype=DType.BFLOAT16
        if megatron
        else draw.choice((DType.FLOAT32, DType.FLOAT32, DType.BFLOAT16)),
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=draw.choice((Checkpointing.FULL, Checkpointing.FULL, Checkpointing.NONE)),
        packed=draw.chance(0.85),
        activation_offload=not megatron and draw.chance(0.2),
        param_offload=draw.chance(0.3),
        optimizer_offload=draw.chance(0.3),
        reshard_after_forward=draw.chance(0.8),
        forward_prefetch=draw.chance(0.3),
        deferred_gradient_sync=not megatron and draw.chance(0.2),
        separate_embedding_units=backend is Backend.FSDP2,
        fused_layers=draw.chance(0.3),
        lora=lora,
        second=_SECOND if backend is Backend.FSDP and lora is None else None,
    )


def _head(draw: Draw, backend: Backend) -> OutputHead:
    return OutputHead(
        kind=draw.choice((HeadKind.LOGITS, HeadKind.LOGITS, HeadKind.FUSED_TORCH)),
        compiled=backend is not Backend.MEGATRON and draw.chance(0.8),
        chunk_tokens=draw.choice((None, None, None, 2048)),
        checkpointed=draw.chance(0.2),
        scaling=draw.choice((Scaling.NONE, Scaling.COPY)),
        fusable=draw.choice(((), (HeadKind.FUSED_TORCH,), (HeadKind.FUSED_TRITON,))),
    )


def _batch(draw: Draw, engine: Engine, model: ModelShape) -> Batch:
    responses = draw.choice((1, 4, 8, 16))
    mini = engine.parallel.data * draw.choice((1, 2, 8, 32))
    total = min(draw.choice((1024, 2048, 4096, 16384, 32768)), model.max_positions)
    prompt = total // draw.choice((2, 4, 8))
    return Batch(
        prompts=mini * draw.choice((1, 1, 2, 4)) + draw.choice((0, 0, 0, engine.parallel.data)),
        responses_per_prompt=responses,
        mini_batch_prompts=mini,
        group_advantages=True,
        loss_of_advantages=True,
        fills_mini_batches=True,
        zero_advantage_ratio=0.5,
        epochs=draw.choice((1, 1, 2)),
        max_prompt_tokens=prompt,
        max_response_tokens=total - prompt,
        balanced=draw.chance(0.9),
    )


def _pass(draw: Draw, batch: Batch, *, entropy: bool = False) -> Pass:
    return Pass(
        batching=Batching(
            dynamic=draw.chance(0.7),
            token_budget=draw.choice((1, 2, 3, 8)) * batch.sequence_tokens,
            micro_batch_sequences=draw.choice((1, 1, 2, 4)),
            hard_limit=draw.chance(0.7),
        ),
        entropy=entropy,
    )


def _rollout(draw: Draw, model: ModelShape, cluster: Cluster) -> Rollout:
    engine = draw.choice(list(FRACTIONS))
    sizes = [size for size in (1, 2, 4, 8) if size <= cluster.gpus_per_node and model.heads % size == 0]
    return Rollout(
        engine=engine,
        engine_version="0.5.5" if engine is RolloutEngine.SGLANG else "",
        memory_fraction=draw.choice(range(20, 95, 5)) / 100,
        fraction_of=FRACTIONS[engine],
        tensor_parallel=draw.choice(sizes),
        max_sequences=draw.choice((64, 256, 1024, 2048)),
        max_batched_tokens=draw.choice((256, 1024, 8192)),
        max_model_tokens=draw.choice((None, 32768)),
        cuda_graphs=draw.chance(0.8),
        capture_sizes=draw.choice((None, None, (1, 2, 4, 8))),
        chunked_prefill=draw.chance(0.9),
        prefix_caching=draw.chance(0.9),
        frees_memory=draw.chance(0.9),
        log_stats=draw.chance(0.5),
        quantizes_cache=engine is not RolloutEngine.TENSORRT_LLM,
        apart_with=("asynchronous",),
        colocated=draw.chance(0.9),
        gpus=cluster.gpus,
    )


def _with_further(draw: Draw, workload: Workload) -> Workload:
    """With checkpoints under Megatron, and now and then a reward model or a teacher."""
    if workload.actor.engine.backend is Backend.MEGATRON:
        workload = workload.with_actor(saving=Saving(gathers_optimizer=draw.chance(0.5)))
    services = (_judge(draw, workload.model, workload.cluster),) if draw.chance(0.2) else ()
    if draw.chance(0.1):
        services = (*services, _teacher(draw, workload.model, workload.cluster))
    return replace(workload, services=services)


def _with_rare(draw: Draw, workload: Workload) -> Workload:
    """With what few jobs have: of a loss, of attention, of an optimizer's step, of an engine, of a filter."""
    workload = workload.with_batch(loss_averages_micro_batches=draw.chance(0.2))
    if workload.actor.engine.backend is not Backend.MEGATRON:
        workload = _with_engines(
            workload,
            attention=draw.choice((*[Attention.SEQUENCES] * 4, Attention.MASKED_ROWS, Attention.EAGER_ROWS)),
            attention_settable=True,
            optimizer_fusable=draw.chance(0.5),
            reads_positions=draw.chance(0.5),
        )
    if draw.chance(0.3):  # somebody says how long sequences are, and the engine takes them in large steps
        batch = workload.batch
        means = {"mean_prompt": batch.max_prompt_tokens // 2, "mean_response": batch.max_response_tokens // 2}
        workload = workload.with_batch(lengths=replace(batch.lengths, **means))
        workload = workload.with_rollout(max_model_tokens=batch.sequence_tokens, max_batched_tokens=131_072)
    if draw.chance(0.2):
        share, prompts = draw.choice((0.3, 0.6, 0.9)), workload.batch.prompts
        few = GroupFilter(kept_share=share, round_prompts=max(1, prompts // draw.choice((1, 4, 16))))
        workload = workload.with_batch(group_filter=few)
    return workload


def _with_engines(workload: Workload, **fields: object) -> Workload:
    """With other fields of the engines of all roles."""
    critic, reference = workload.critic, workload.reference
    workload = workload.with_actor(engine=replace(workload.actor.engine, **fields))
    if reference is not None:
        workload = workload.with_reference(engine=replace(reference.engine, **fields))
    return workload if critic is None else workload.with_critic(engine=replace(critic.engine, **fields))


def _teacher(draw: Draw, model: ModelShape, cluster: Cluster) -> Service:
    """A teacher as large as the policy, on as many GPUs of its own."""
    server = replace(_rollout(draw, model, cluster), colocated=False, sleep_level=1)
    server = replace(server, memory_fraction=draw.choice(range(5, 95, 5)) / 100)
    return Service(
        role=ServiceRole.TEACHER,
        name="teacher",
        model=model,
        gpus=cluster.gpus,
        shares_gpus=False,
        server=server,
    )


def _judge(draw: Draw, model: ModelShape, cluster: Cluster) -> Service:
    """A reward model as large as the policy, on an engine of its own or of the trainer."""
    shares = draw.chance(0.8)
    if draw.chance(0.3):
        return _scorer(draw, model, cluster)
    server = replace(_rollout(draw, model, cluster), colocated=shares, sleep_level=1)
    return Service(
        role=ServiceRole.REWARD,
        name="judge",
        model=model,
        gpus=cluster.gpus,
        shares_gpus=shares,
        server=server,
    )


def _scorer(draw: Draw, model: ModelShape, cluster: Cluster) -> Service:
    """A reward model on the trainer's FSDP, with its weights on the host."""
    engine = Engine(
        token_bytes=TOKEN_BYTES,
        backend=draw.choice((Backend.FSDP, Backend.FSDP2)),
        parallel=Parallelism(gpus=cluster.gpus, shard=cluster.gpus),
        stored_dtype=DType.BFLOAT16,
        compute_dtype=DType.BFLOAT16,
        reduce_dtype=DType.FLOAT32,
        optimizer_dtype=DType.FLOAT32,
        checkpointing=Checkpointing.NONE,
        packed=draw.chance(0.5),
        streamed_offload=True,
    )
    batching = Batching(
        dynamic=engine.packed,
        token_budget=draw.choice((4096, 65536, 524288)),
        micro_batch_sequences=draw.choice((1, 8, 64)),
    )
    return Service(
        role=ServiceRole.REWARD,
        name="judge",
        model=replace(model, value_head=True),
        gpus=cluster.gpus,
        shares_gpus=True,
        engine=engine,
        scoring=Pass(batching=batching),
    )
