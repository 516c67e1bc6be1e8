"""Seconds of the rollout: prefill in chunks, then one engine step per generated token."""

from math import ceil

from msgspec import Struct

from tuner.dtypes import DType
from tuner.hardware import Cluster
from tuner.model_shape import ModelShape
from tuner.serving.graphs import largest_graph
from tuner.timing import assumptions as assume
from tuner.timing.communication import ring_bytes_per_s
from tuner.timing.layer import average_layer, cached_keys, visible_keys
from tuner.timing.rates import (
    attention_flop_per_s,
    copy_bytes_per_s,
    decode_bytes_per_s,
    product_flop_per_s,
)
from tuner.timing.responses import Band, drain
from tuner.workload import Batch, Rollout, Workload

_REDUCTIONS_PER_LAYER = 2


class RolloutInput(Struct, frozen=True, kw_only=True):
    """What the time of a rollout depends on; proposals that change none of it take as long."""

    model: ModelShape
    cluster: Cluster
    batch: Batch
    rollout: Rollout

    @classmethod
    def of(cls, workload: Workload) -> "RolloutInput":
        """The rollout of a job."""
        return cls(
            model=workload.model, cluster=workload.cluster, batch=workload.batch, rollout=workload.generator
        )


class Generation(Struct, frozen=True, kw_only=True):
    """What one replica does in a step."""

    sequences: int
    concurrent: int  # sequences that run at once
    full_steps: float  # engine steps that each yield one token of ``concurrent`` sequences
    drain: tuple[Band, ...]  # steps in which the running sequences fall from ``concurrent`` to none


def generation(inputs: RolloutInput, *, concurrent_sequences: int) -> Generation:
    """Steps and running sequences of one replica.

    Sequences that run at once are limited by the KV cache, by the engine's own limit, and by one
    token each of a step's tokens. Each is taken to need its room in the cache from the start, so none is
    preempted. The last ``concurrent`` sequences drain as their responses end; the rest of the
    ``sequences x r`` tokens, with a mean response of r, come from full batches: no fewer steps than the
    longest response has when all sequences run at once.
    """
    batch, rollout = inputs.batch, inputs.rollout
    sequences = ceil(batch.sequences / rollout.replicas)
    scheduled = min(rollout.max_sequences, rollout.step_tokens) * rollout.data_parallel
    concurrent = max(1, min(concurrent_sequences, scheduled, sequences))
    mean = max(1.0, batch.mean_response_tokens)
    bands = drain(batch)
    drained = sum(band.share * band.steps for band in bands)
    return Generation(
        sequences=sequences,
        concurrent=concurrent,
        full_steps=max(0.0, mean * sequences / concurrent - drained),
        drain=bands,
    )


def weight_read_bytes(inputs: RolloutInput, tokens: float) -> float:
    """Weights that one GPU reads in an engine step of ``tokens`` tokens.

    All of them under tensor parallelism's share; of the routed experts only those that some token
    goes to, ``1 - (1 - k / E)^T`` of them when each token picks k of E at random. The output
    projection is not quantized.
    """
    model, rollout = inputs.model, inputs.rollout
    moe = model.moe
    experts = model.sparse_layers * model.expert_parameters
    dense = model.active_parameters - (
        0 if moe is None else model.sparse_layers * moe.experts_per_token * model.one_expert_parameters
    )
    read = dense / rollout.tensor_parallel
    if moe is not None:
        touched = 1 - (1 - moe.experts_per_token / moe.experts) ** tokens
        read += experts * touched / max(rollout.tensor_parallel, rollout.expert_parallel)
    head_dtype = DType.BFLOAT16 if rollout.weight_dtype is DType.FLOAT8 else rollout.weight_dtype
    head = model.projection_parameters / rollout.tensor_parallel
    return (read - head) * rollout.weight_dtype.bytes + head * head_dtype.bytes


def cache_read_bytes(inputs: RolloutInput, running: float) -> float:
    """KV cache that one GPU reads in a step: the tokens so far of all running sequences.

    Heads are divided by tensor parallelism as far as there are any; a latent cache is not.
    """
    model, rollout, batch = inputs.model, inputs.rollout, inputs.batch
    context = batch.mean_prompt_tokens + batch.mean_response_tokens / 2
    visible = cached_keys(average_layer(model), context)
    split = 1 if model.latent is not None else min(rollout.tensor_parallel, model.kv_heads)
    values = model.cached_layers * model.kv_values_per_token / split
    return running * visible * values * rollout.kv_dtype.bytes


def arithmetic_seconds(inputs: RolloutInput, tokens: float, keys: float) -> float:
    """Products and attention of ``tokens`` tokens on one GPU of a replica; ``keys`` visible to each."""
    model, rollout, gpu = inputs.model, inputs.rollout, inputs.cluster.gpu
    # computed for sampled tokens only, counted with decoding
    head = model.projection_parameters if model.value_head else model.vocab * model.hidden
    body = model.active_parameters - head
    width = average_layer(model).attention_width * model.layers
    products = 2 * tokens * body / product_flop_per_s(gpu, rollout.weight_dtype)
    attention = 2 * tokens * keys * width / attention_flop_per_s(gpu)
    return (products + attention) / rollout.tensor_parallel


def sampling_seconds(inputs: RolloutInput, running: float) -> float:
    """Logits of the running sequences and the choice among them; every GPU of a replica chooses."""
    model, rollout, gpu = inputs.model, inputs.rollout, inputs.cluster.gpu
    products = 2 * running * model.hidden * model.vocab / rollout.tensor_parallel
    traffic = running * model.vocab * assume.SAMPLER_BYTES
    return products / product_flop_per_s(gpu, DType.BFLOAT16) + traffic / copy_bytes_per_s(gpu)


def reduction_seconds(inputs: RolloutInput, tokens: float) -> float:
    """All-reduces of tensor parallelism in one step: two per layer of ``tokens x hidden``."""
    ranks = inputs.rollout.tensor_parallel
    if ranks < 2:
        return 0.0
    moved = 2 * tokens * inputs.model.hidden * DType.BFLOAT16.bytes * (ranks - 1) / ranks
    once = moved / ring_bytes_per_s(inputs.cluster, ranks) + assume.ENGINE_ALL_REDUCE_S
    return inputs.model.layers * _REDUCTIONS_PER_LAYER * once


def is_replayed(inputs: RolloutInput, sequences: float) -> bool:
    """Whether a CUDA graph was captured for a step of so many sequences."""
    largest = largest_graph(inputs.rollout)
    return largest is None or sequences <= largest


def launch_seconds(inputs: RolloutInput, sequences: float) -> float:
    """Seconds in which the kernels of one step are launched.

    A CUDA graph replays them if one was captured for so many sequences; a list of sizes that ends
    earlier leaves full steps to the host.
    """
    kernel_seconds = assume.GRAPH_LAUNCH_S if is_replayed(inputs, sequences) else assume.HOST_LAUNCH_S
    return inputs.model.layers * assume.ENGINE_LAYER_KERNELS * kernel_seconds


def decode_step_parts(inputs: RolloutInput, sequences: float) -> dict[str, float]:
    """Seconds by cause of one decoding step with this many running sequences in the replica.

    ``max(weights + KV cache over bandwidth, arithmetic)`` plus sampling and reductions, no less
    than launching its kernels takes, and the engine's own time: after that, or where the engine
    prepares one step while the GPU computes the one before, beside it. Kernels that no CUDA graph
    replays are launched by the host that schedules. Attention has no arithmetic of its own here:
    reading the cache takes longer.
    """
    rollout, gpu = inputs.rollout, inputs.cluster.gpu
    running = _of_one_engine(inputs, sequences)
    read = weight_read_bytes(inputs, sequences) + cache_read_bytes(inputs, running)
    reading = read / decode_bytes_per_s(gpu)
    model = max(reading, arithmetic_seconds(inputs, running, 0.0)) + sampling_seconds(inputs, running)
    reductions = reduction_seconds(inputs, running)
    launch, engine = (
        launch_seconds(inputs, running),
        assume.ENGINE_STEP_S + running * assume.ENGINE_SEQUENCE_S,
    )
    waiting = max(0.0, launch - model - reductions)
    if rollout.overlaps_scheduling:
        beside = model + reductions + waiting
        engine = max(0.0, engine + (0.0 if is_replayed(inputs, running) else launch) - beside)
    return {"decode": model, "communication": reductions, "launch": waiting, "engine": engine}


def waits_for_host(inputs: RolloutInput, *, concurrent_sequences: int) -> bool:
    """Whether a full decoding step ends when the host has scheduled the next one, whatever the GPU does.

    More sequences then take as much longer: all that they could save is the host's time of a step that
    does not grow with them, of which little is known. Kernels that it launches one by one are another
    matter: their number does not grow.
    """
    sequences = generation(inputs, concurrent_sequences=concurrent_sequences).concurrent
    beside = inputs.rollout.overlaps_scheduling and is_replayed(inputs, _of_one_engine(inputs, sequences))
    return beside and decode_step_parts(inputs, sequences)["engine"] > 0


def _of_one_engine(inputs: RolloutInput, sequences: float) -> float:
    """The sequences of one engine's step, of those that run in the replica."""
    return sequences / (inputs.rollout.data_parallel * inputs.rollout.pipeline_parallel)


def decode_parts(inputs: RolloutInput, done: Generation) -> dict[str, float]:
    """Seconds by cause of all decoding steps of one replica: full batches, then the drain."""
    total = dict.fromkeys(("decode", "communication", "launch", "engine"), 0.0)
    for band in (Band(share=1.0, steps=done.full_steps), *done.drain):
        for name, seconds in decode_step_parts(inputs, band.share * done.concurrent).items():
            total[name] += band.steps * seconds
    return total


def prefill_chunk_tokens(inputs: RolloutInput, prompt: float, tokens: float) -> float:
    """Prompt tokens of one engine step: the limit, or as many whole prompts as fit when not chunked."""
    limit = float(max(1, inputs.rollout.step_tokens))
    if not inputs.rollout.chunked_prefill:
        limit = max(1, limit // prompt) * prompt
    return min(limit, tokens)


def prefill_parts(inputs: RolloutInput, done: Generation) -> dict[str, float]:
    """Seconds by cause of computing the prompts of one replica, a chunk of tokens per engine step.

    With prefix caching the responses to one prompt share it. A step of its own takes
    ``max(arithmetic, reading the weights)`` and the engine's time, so small chunks waste both. In
    chunked prefill the prompts after the first full batch ride on decoding steps, which read the
    weights anyway.
    """
    batch, rollout, gpu = inputs.batch, inputs.rollout, inputs.cluster.gpu
    shared = batch.responses_per_prompt if rollout.prefix_caching else 1
    prompt = max(1.0, batch.mean_prompt_tokens)
    tokens = max(prompt, done.sequences / shared / rollout.data_parallel * prompt)
    chunk = prefill_chunk_tokens(inputs, prompt, tokens)
    chunks = tokens / chunk
    alone = done.concurrent / done.sequences if rollout.chunked_prefill else 1.0
    read = weight_read_bytes(inputs, chunk) / decode_bytes_per_s(gpu)
    arithmetic = arithmetic_seconds(inputs, chunk, visible_keys(average_layer(inputs.model), prompt))
    return {
        "prefill": chunks * (arithmetic + alone * max(0.0, read - arithmetic)),
        "communication": chunks * reduction_seconds(inputs, chunk),
        "engine": chunks * alone * assume.ENGINE_STEP_S,
    }


def rollout_parts(inputs: RolloutInput, *, concurrent_sequences: int) -> dict[str, float]:
    """Seconds by cause of the whole rollout; replicas run side by side."""
    done = generation(inputs, concurrent_sequences=concurrent_sequences)
    parts = decode_parts(inputs, done)
    for name, seconds in prefill_parts(inputs, done).items():
        parts[name] = parts.get(name, 0.0) + seconds
    return parts
