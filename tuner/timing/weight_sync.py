"""Seconds of bringing new weights from the trainer to the rollout engine."""

from math import ceil

from tuner.dtypes import DType
from tuner.timing import assumptions as assume
from tuner.timing.communication import gather_seconds
from tuner.timing.rates import copy_bytes_per_s
from tuner.timing.transfers import pageable_seconds, pinned_seconds, weights_held
from tuner.workload import Backend, Workload


def sent_parameters(workload: Workload) -> int:
    """Parameters that travel: the adapters alone if the engine applies them itself, else all."""
    lora = workload.actor.engine.lora
    return workload.model.parameters if lora is None or lora.merged_for_rollout else lora.parameters


def gathered_parameters(workload: Workload) -> int:
    """Parameters that the trainer gathers; a gather of the whole model takes the frozen ones along."""
    return (
        workload.model.parameters if workload.weight_sync.gathers_whole_model else sent_parameters(workload)
    )


def trainer_gather_seconds(workload: Workload) -> float:
    """Every full tensor from its shards, in the dtype it is stored in, tensor by tensor or at once."""
    engine = workload.actor.engine
    parallel = engine.parallel
    ranks = parallel.shard
    if engine.backend is Backend.MEGATRON:
        ranks = parallel.tensor * parallel.pipeline * max(1, parallel.expert // parallel.tensor)
    bytes_whole = gathered_parameters(workload) * engine.stored_dtype.bytes
    seconds = gather_seconds(bytes_whole, workload.cluster, ranks)
    if ranks > 1 and not workload.weight_sync.gathers_whole_model:
        seconds += (workload.model.layers * assume.LAYER_TENSORS - 1) * assume.COLLECTIVE_S
    return seconds


def engine_load_seconds(workload: Workload) -> float:
    """Through buckets into the engine: written once and read once on the card, or over the network.

    Every GPU of a replica reads all weights and keeps its share.
    """
    bytes_sent = sent_parameters(workload) * workload.actor.engine.stored_dtype.bytes
    if not workload.generator.colocated:
        return bytes_sent / (workload.cluster.network_bytes_per_s * assume.LINK_SHARE)
    return 2 * bytes_sent / copy_bytes_per_s(workload.cluster.gpu)


def quantizing_seconds(workload: Workload) -> float:
    """Weights made 8-bit again on their way into the engine: every GPU does it to all of them.

    Where they come in another dtype than bfloat16 they are cast first. Embedding and output projection keep
    their dtype, as norms and biases do, which are too few to show. Adapters are not made 8-bit.

    Source: verl 0.7.0 ``utils/vllm/vllm_fp8_utils.py`` (``quant_weights``), 0.9.1 ``utils/fp8_utils.py``
    (``quant_weights_by_name``), ``utils/kernel/fp8_kernel.py``.
    """
    model, sent = workload.model, workload.weight_sync.sent_dtype or workload.actor.engine.stored_dtype
    if workload.generator.weight_dtype is not DType.FLOAT8 or sent_parameters(workload) < model.parameters:
        return 0.0
    products = model.parameters - model.embedding_parameters - model.head_parameters
    cast = 0 if sent is DType.BFLOAT16 else sent.bytes + DType.BFLOAT16.bytes
    fused = workload.weight_sync.quantizes_in_one_kernel
    made = assume.QUANTIZING_BYTES if fused else assume.QUANTIZING_OPERATORS_BYTES
    return products * (cast + made) / copy_bytes_per_s(workload.cluster.gpu)


def bucket_seconds(workload: Workload) -> float:
    """One handshake per bucket, none where tensors are handed over without one."""
    if workload.weight_sync.bucket_bytes == 0:
        return 0.0
    bytes_sent = sent_parameters(workload) * workload.actor.engine.stored_dtype.bytes
    return ceil(bytes_sent / workload.weight_sync.bucket_bytes) * assume.BUCKET_S


def staging_seconds(workload: Workload) -> float:
    """Weights that the trainer keeps on the host come to the GPU first and leave it afterwards."""
    engine, gpu = workload.actor.engine, workload.cluster.gpu
    stored = weights_held(workload.model, engine) * engine.stored_dtype.bytes
    if engine.streamed_offload:
        return pinned_seconds(stored, gpu)
    return 2 * pageable_seconds(stored, gpu) if engine.param_offload else 0.0


def engine_sleep_seconds(workload: Workload) -> float:
    """Sleep level 1 copies the engine's weights to the host and back; level 2 drops them."""
    rollout = workload.generator
    sleeps = rollout.colocated and rollout.frees_memory and not rollout.sleeps_with_weights
    if not sleeps or rollout.sleep_level != 1:
        return 0.0
    split = max(rollout.tensor_parallel, rollout.expert_parallel)
    held = workload.model.parameters * rollout.weight_dtype.bytes / split
    return 2 * pinned_seconds(held, workload.cluster.gpu)


def sync_parts(workload: Workload) -> dict[str, float]:
    """Seconds by cause of one weight sync."""
    return {
        "gather": trainer_gather_seconds(workload),
        "load": engine_load_seconds(workload),
        "quantizing": quantizing_seconds(workload),
        "buckets": bucket_seconds(workload),
        "states": staging_seconds(workload) + engine_sleep_seconds(workload),
    }
