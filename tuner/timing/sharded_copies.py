"""Seconds of what FSDP copies around its collectives: out of their buffers, into them, and from the host."""

from tuner.timing import assumptions as assume
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.job import TimedPasses
from tuner.timing.rates import copy_bytes_per_s
from tuner.timing.transfers import pinned_seconds
from tuner.workload import Backend


def fetch_seconds(job: TimedPasses, parameters: float) -> float:
    """A GPU's share of ``parameters`` from the host, where they live there."""
    if not job.engine.streamed_offload:
        return 0.0
    shard_bytes = parameters * job.engine.stored_dtype.bytes / job.shard_ranks
    return pinned_seconds(shard_bytes, job.cluster.gpu)


def fetches_between(job: TimedPasses) -> bool:
    """Whether weights come from the host on the stream that computes, between two layers.

    FSDP2 does so on a single GPU, where there is nothing to gather: with more of them it fetches a layer's
    weights on the stream of the gather, beside the layer before.

    Source: torch ``distributed/fsdp/_fully_shard/_fsdp_param_group.py`` (``wait_for_unshard``:
    ``world_size == 1``), ``_fsdp_param.py`` (``all_gather_inputs``).
    """
    return job.engine.backend is Backend.FSDP2 and job.shard_ranks == 1


def unsharding_copy_seconds(job: TimedPasses, parameters: float) -> float:
    """Copies that make stored weights into parameters: those that compute wait for all of them.

    A rank casts its share of what is stored. FSDP2 puts that in the place where the others are gathered, and
    copies parameters out of there, while FSDP1 views them. The first two are on streams of higher priority,
    and their kernels fill the card. On one GPU nothing is gathered: both cast, and FSDP2 copies once more.

    Weights from the host as well, where they come between two layers.

    Source: torch ``distributed/fsdp/_fully_shard/_fsdp_param_group.py`` (``wait_for_unshard``),
    ``_fsdp_collectives.py`` (``foreach_all_gather``, ``foreach_all_gather_copy_out``),
    ``distributed/fsdp/_flat_param.py`` (``pre_unshard``).
    """
    engine = job.engine
    computed, ranks = job.bytes_per_value, job.shard_ranks
    moved = 0.0
    if engine.stored_dtype is not engine.compute_dtype:
        moved += (engine.stored_dtype.bytes + computed) / ranks
    if engine.backend is Backend.FSDP2:
        moved += 2 * computed + (2 * computed / ranks if ranks > 1 else 0.0)
    fetched = fetch_seconds(job, parameters) if fetches_between(job) else 0.0
    return fetched + parameters * moved / copy_bytes_per_s(job.cluster.gpu)


def reducing_copy_seconds(job: TimedPasses, trained: float, *, summed: bool = False) -> float:
    """Copies that put gradients into one buffer to be reduced, on the stream that computes.

    FSDP2 writes them in the dtype of the reduction, by a kernel that stays below the rate of a copy; FSDP1's
    autograd joins them in their own. With nobody to reduce with, FSDP2 copies that buffer once more, on a
    stream of higher priority: the kernel fills the card, and those that compute wait for it. With somebody
    FSDP1 casts what was joined on another stream, and divides it there by a part of the number of ranks, and
    its share of the sum by the rest: none of it fits beside kernels that move as many bytes themselves.

    Args:
        job: the pass.
        trained: gradients of the whole unit.
        summed: whether they were added up before, in the dtype of the reduction.

    Source: torch ``_fully_shard/_fsdp_collectives.py`` (``foreach_reduce_scatter_copy_in``,
    ``foreach_reduce``: ``world_size == 1``), ``aten/src/ATen/native/cuda/TensorShape.cu``
    (``chunk_cat_cuda_kernel``); ``distributed/fsdp/_runtime_utils.py`` (``_post_backward_hook``,
    ``_reduce_grad``), ``distributed/algorithms/_comm_hooks/default_hooks.py``
    (``_get_gradient_predivide_factor``).
    """
    engine, rate = job.engine, copy_bytes_per_s(job.cluster.gpu)
    computed, reduced = job.bytes_per_value, engine.reduce_dtype.bytes
    if engine.backend is not Backend.FSDP2:
        return trained * (2 * computed + _cast_and_divided(computed, reduced, engine.parallel.gpus)) / rate
    read = reduced if summed else computed
    share = assume.GRADIENT_COPY_SHARE if read == reduced else assume.GRADIENT_CAST_SHARE
    again = 2 * reduced if job.shard_ranks == 1 else 0
    return trained * ((read + reduced) / share + again) / rate


def _cast_and_divided(computed: int, reduced: int, ranks: int) -> float:
    """Bytes per gradient that FSDP1 moves before and behind a reduction; none where it is alone.

    The sum is divided in two steps, each by the number's root or near it, to stay within the dtype's range.
    """
    if ranks == 1:
        return 0.0
    cast = 0 if computed == reduced else computed + reduced
    before = 1
    while ranks % before == 0 and ranks / before > before:
        before *= 2
    behind = 0.0 if before == ranks else 2 * reduced / ranks
    return cast + 2 * reduced + behind


def gradient_copy_seconds(job: TimedPasses, trained: float, *, reduces: bool, accumulates: bool) -> float:
    """Seconds of copying and adding one unit's gradients, once a micro-batch has computed them.

    Args:
        job: the pass.
        trained: gradients of the whole unit.
        reduces: whether this micro-batch ends in their reduction.
        accumulates: whether a micro-batch came before it.
    """
    deferred = job.engine.deferred_gradient_sync
    seconds = 0.0
    if accumulates:
        seconds += accumulating_seconds(job, trained)
    elif not reduces and job.engine.backend is Backend.FSDP2:
        cast = job.bytes_per_value + job.engine.reduce_dtype.bytes
        equal = job.engine.compute_dtype is job.engine.reduce_dtype
        seconds += 0.0 if equal else trained * cast / copy_bytes_per_s(job.cluster.gpu)
    if reduces:
        seconds += reducing_copy_seconds(job, trained, summed=accumulates and deferred)
    return seconds


def accumulating_seconds(job: TimedPasses, trained: float) -> float:
    """Seconds of adding gradients to those of the micro-batches before: both are read, one is written.

    A rank adds its share once it is reduced, in the dtype of its weights; where its states live on the host,
    the host does. Gradients that stay whole until the last micro-batch are added by every rank: FSDP2's to a
    sum in the dtype of the reduction, FSDP1's in their own. FSDP2 does so on a stream of higher priority,
    FSDP1 beside what computes, which shares the memory's bandwidth with it.

    Source: torch ``distributed/fsdp/_fully_shard/_fsdp_collectives.py`` (``foreach_reduce``),
    ``_fsdp_param.py`` (``accumulate_unsharded_grad_if_needed``), ``distributed/fsdp/_runtime_utils.py``
    (``_accumulate_sharded_grad``).
    """
    engine, rate = job.engine, copy_bytes_per_s(job.cluster.gpu)
    if not engine.deferred_gradient_sync:
        added = 3 * engine.stored_dtype.bytes * trained / job.shard_ranks
        return added / (assume.HOST_THREAD_BYTES_PER_S if engine.streamed_offload else rate)
    if engine.backend is Backend.FSDP2:
        return trained * (2 * engine.reduce_dtype.bytes + job.bytes_per_value) / rate
    return trained * 3 * job.bytes_per_value / rate


def reducing_host_seconds(job: TimedPasses, trained: float) -> float:
    """Seconds in which the host prepares FSDP2's kernel that writes gradients into the buffer.

    The kernel has a block for each 2,048 bytes of a rank's share, and a list tells each block which gradient
    it copies. The host writes that list anew for every reduction: ``b P / (2048 r)`` entries.

    Source: torch ``aten/src/ATen/native/cuda/TensorShape.cu`` (``get_chunk_cat_metadata``, ``pack_vecs``).
    """
    engine = job.engine
    if engine.backend is not Backend.FSDP2:
        return 0.0
    blocks = trained * engine.reduce_dtype.bytes / job.shard_ranks / assume.GRADIENT_TILE_BYTES
    return blocks * assume.GRADIENT_TILE_S / correction(job.cluster.gpu, OperatorFamily.HOST)
