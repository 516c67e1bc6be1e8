"""Seconds of a pass under Megatron: tensor, pipeline, context and expert parallelism."""

from tuner.batching import pass_sequences
from tuner.timing import assumptions as assume
from tuner.timing.communication import (
    all_reduce_seconds,
    all_to_all_seconds,
    gather_seconds,
    reduce_scatter_seconds,
)
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.expert_dispatch import WAITS, copy_bytes, expert_ranks, sent_copies
from tuner.timing.job import TimedPasses, head_of, kernels_seconds, micro_batch_seconds
from tuner.timing.operators import elementwise_of
from tuner.timing.rates import elementwise_bytes_per_s
from tuner.workload import Checkpointing, Dispatcher, HeadKind, Travel

_REDUCTIONS_PER_LAYER = 2  # after the attention and after the MLP
_ROTATED = 2  # queries and keys
_PACKED = 3  # ids, labels and their mask
_WITH_ENTROPY = (HeadKind.FUSED_TORCH, HeadKind.FUSED_TRITON, HeadKind.FUSED_LIGER, HeadKind.FUSED_TUNER)


def tensor_exchange_seconds(job: TimedPasses) -> float:
    """All-reduces of one layer in one direction, two of ``T x H``; sequence parallelism moves as much."""
    bytes_whole = job.micro.tokens * job.model.hidden * job.bytes_per_value
    return _REDUCTIONS_PER_LAYER * all_reduce_seconds(bytes_whole, job.cluster, job.engine.parallel.tensor)


def context_exchange_seconds(job: TimedPasses) -> float:
    """Keys and values of one layer that travel once round the ring of context ranks."""
    parallel = job.engine.parallel
    values = job.micro.tokens * job.model.kv_values_per_token / parallel.tensor
    whole = values * parallel.context * job.bytes_per_value
    return gather_seconds(whole, job.cluster, parallel.context, stride=parallel.tensor)


def expert_exchange_seconds(job: TimedPasses) -> float:
    """Tokens of a layer on their way to experts, and the results back, see ``tuner.timing.expert_dispatch``.

    With expert tensor parallelism the copies that a rank got are gathered from all that share its experts,
    and what these computed is reduced.
    """
    moe, parallel, dispatcher = job.model.moe, job.engine.parallel, job.engine.dispatcher
    if moe is None or expert_ranks(parallel) == 1:
        return 0.0
    cluster, shared = job.cluster, parallel.expert_tensor
    size = copy_bytes(job.model.routed_width, job.bytes_per_value)
    tokens = job.micro.tokens * sparse_share(job) / parallel.tensor
    if dispatcher is Dispatcher.ALL_GATHER:
        whole = tokens * expert_ranks(parallel) * size
        ranks = expert_ranks(parallel)
        return gather_seconds(whole, cluster, ranks) + reduce_scatter_seconds(whole, cluster, ranks)
    local = tokens * sent_copies(dispatcher, moe, parallel) * size
    if dispatcher is Dispatcher.FLEX:
        return 2 * all_to_all_seconds(local * shared, cluster, expert_ranks(parallel))
    seconds = 2 * all_to_all_seconds(local, cluster, parallel.expert, stride=shared)
    return seconds + sum(
        move(local * shared, cluster, shared) for move in (gather_seconds, reduce_scatter_seconds)
    )


def sparse_share(job: TimedPasses) -> float:
    """Layers with routed experts over all layers."""
    return job.model.sparse_layers / job.model.layers


def counting_seconds(job: TimedPasses) -> float:
    """Seconds that the GPU waits in one forward pass of a layer: the host reads who gets how many tokens.

    The host has launched nothing ahead by then, and what it launches next is the exchange. Backward it knows
    the counts.
    """
    if job.model.moe is None:
        return 0.0
    once = assume.READ_NUMBER_S
    if expert_ranks(job.engine.parallel) > 1:
        once += assume.COLLECTIVE_CALL_S
    return WAITS * sparse_share(job) * once / correction(job.cluster.gpu, OperatorFamily.HOST)


def packing_seconds(job: TimedPasses) -> float:
    """Seconds of taking the padding out of one micro-batch's sequences and putting it back, one by one.

    Ids, labels and their mask are packed, log-probabilities and entropy unpacked, each in a loop over the
    sequences that waits for the GPU in every turn, so nothing hides it. Ranks that share a sequence cut it
    into as many pieces. Engines that get their batches without padding do not wait in these loops.

    Source: verl 0.4.1 to 0.9.1 ``models/mcore/util.py`` (``preprocess_packed_seqs``,
    ``postprocess_packed_seqs``), ``models/mcore/model_forward.py``, ``model_forward_fused.py``.
    """
    unpacked = 2 if job.step_pass.entropy or job.step_pass.head.kind in _WITH_ENTROPY else 1
    once = assume.CUT_SEQUENCE_S if job.batch.travel is Travel.PADDED else assume.CUT_WITHOUT_WAITING_S
    sequences = pass_sequences(job.batch, job.step_pass) / job.micro.count
    turns = (_PACKED + unpacked) * sequences * job.engine.parallel.context
    return turns * once / correction(job.cluster.gpu, OperatorFamily.HOST)


def rotated_pieces(job: TimedPasses) -> float:
    """Pieces of one micro-batch's queries and keys that are rotated one after the other; 0: by one kernel.

    Both of each sequence by themselves, or of all of them.

    Source: Megatron-Core 0.12 to 0.16 ``models/common/embeddings/rope_utils.py``
    (``_apply_rotary_pos_emb_thd``).
    """
    if job.engine.fused_rotary or not job.engine.packed:
        return 0.0
    if not job.engine.rotates_each:
        return _ROTATED
    return _ROTATED * pass_sequences(job.batch, job.step_pass) / job.micro.count


def rotary_seconds(job: TimedPasses, *, backward: bool = False) -> float:
    """Seconds by which that lengthens one layer in one direction.

    Forward the host first reads the lengths of the sequences from the GPU, once for the queries and once for
    the keys. So it has launched nothing ahead, and the GPU waits while it launches these kernels. Backward it
    reads nothing, and the GPU pauses between them and moves what they read and write.
    """
    pieces = rotated_pieces(job)
    if not pieces:
        return 0.0
    if not backward:
        reading = _ROTATED * assume.READ_NUMBER_S
        return (reading + pieces * assume.ROTATED_PIECE_S) / correction(job.cluster.gpu, OperatorFamily.HOST)
    gpu, layer = job.cluster.gpu, job.layer
    values = job.micro.tokens * layer.query_key_values / job.engine.parallel.tensor
    table = elementwise_of(gpu.name)
    moved = table.bytes_of(table.rotary, values, backward=True)
    moved -= assume.ELEMENTWISE_BACKWARD * assume.FUSED_ROTARY_BYTES * values  # counted with the layer
    pauses = pieces * assume.ROTARY_KERNELS * assume.GRAPH_LAUNCH_S
    return pauses + max(0.0, moved) / elementwise_bytes_per_s(gpu)


def most_layers(job: TimedPasses) -> float:
    """Layers of the stage that has most: dealt out evenly, but for a first and a last stage that are told."""
    parallel, layers = job.engine.parallel, job.model.layers
    end_layers = [parallel.first_stage_layers, parallel.last_stage_layers]
    end_sizes = [count for count in end_layers if count is not None]
    middle_stages = parallel.pipeline - len(end_sizes)
    return max(*end_sizes, (layers - sum(end_sizes)) / middle_stages if middle_stages > 0 else 0.0, 0.0)


def waiting_seconds(job: TimedPasses, busy: float, *, backward: bool) -> float:
    """Seconds that the GPU waits for the host in one layer and direction, each of which begins anew.

    The host reads the lengths of the sequences at the start of every micro-batch and the loss at its end, so
    that it is ahead of the GPU in neither direction's first layer.

    Source: verl 0.5.0 to 0.9.1 ``models/mcore/util.py``; 0.7.1 ``workers/actor/megatron_actor.py``, 0.9.1
    ``workers/engine/megatron/transformer_impl.py`` (``detach().item()``).

    Args:
        job: the pass.
        busy: seconds that the GPU works on the layer in this direction.
        backward: which direction.
    """
    return max(0.0, kernels_seconds(job, backward=backward) - busy)


def stage_parts(job: TimedPasses) -> dict[str, float]:
    """Seconds by cause of one micro-batch on the slowest pipeline stage, which has the head."""
    layers = most_layers(job)
    compute = job.compute
    exchange = tensor_exchange_seconds(job) + context_exchange_seconds(job) + expert_exchange_seconds(job)
    directions = 1
    waiting = waiting_seconds(job, compute.forward + exchange, backward=False)
    if job.trains:
        directions = 3 if job.engine.checkpointing is Checkpointing.FULL else 2
        waiting += waiting_seconds(job, compute.backward + (directions - 1) * exchange, backward=True)
    waiting += max(1, directions - 1) * (rotary_seconds(job) + counting_seconds(job))
    if job.trains:
        waiting += rotary_seconds(job, backward=True)
    return {
        "compute": layers * compute.both,
        "communication": layers * directions * exchange,
        "launch": layers * waiting + micro_batch_seconds(job) + packing_seconds(job),
        "head": head_of(job, trains=job.trains),
    }


def gradient_sync_seconds(job: TimedPasses) -> float:
    """Once per optimizer step: reduce-scatter of the gradients, all-gather of the updated weights.

    Without a distributed optimizer an all-reduce of the gradients. Nothing overlaps with it (the
    trainer's default); experts are counted in the same group as the rest.
    """
    parallel = job.engine.parallel
    parameters = job.trained_parameters / (parallel.tensor * parallel.pipeline * parallel.expert)
    ranks = parallel.data * parallel.context
    stride = parallel.tensor
    gradients = parameters * job.engine.reduce_dtype.bytes
    if not job.engine.distributed_optimizer:
        return all_reduce_seconds(gradients, job.cluster, ranks, stride=stride)
    weights = parameters * job.engine.stored_dtype.bytes
    return reduce_scatter_seconds(gradients, job.cluster, ranks, stride=stride) + gather_seconds(
        weights, job.cluster, ranks, stride=stride
    )


def pass_parts(job: TimedPasses) -> dict[str, float]:
    """Seconds by cause of a whole pass: ``(m + (p - 1) / v)`` turns of the slowest stage.

    The ``p - 1`` turns in which a stage waits are the pipeline bubble, a share ``(p - 1) / m`` of
    the work; cut into v pieces that take turns, a stage waits for pieces of it (Narayanan et al. 2021).
    """
    stage, parallel = stage_parts(job), job.engine.parallel
    parts = {name: job.micro.count * seconds for name, seconds in stage.items()}
    parts["bubble"] = (parallel.pipeline - 1) / parallel.virtual_pipeline * sum(stage.values())
    if job.trains:
        parts["communication"] += gradient_sync_seconds(job)
    return parts
