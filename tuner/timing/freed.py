"""Memory that PyTorch's allocator keeps free on a GPU when an update has ended: what was there meanwhile."""

from tuner.timing import assumptions as assume
from tuner.timing.job import TimedPasses
from tuner.timing.layer import LayerWork
from tuner.timing.transfers import trained_values
from tuner.workload import Backend, Checkpointing, HeadKind

_LOGITS = 3  # copies: themselves, what the loss makes of them, their gradient
_GATHERED = 2  # layers whose weights are there at a time
# Values that a layer keeps for each that it has.
_NORM, _FUSED_NORM = 3, 1
_INPUTS = 2
_ROTATED = 2
_GATED, _FUSED_GATED = 4, 3


def freed_bytes(job: TimedPasses) -> float:
    r"""Bytes of freed blocks on one GPU behind an update, which are given back before new weights travel.

    The gradients of a rank's P trained values, :math:`b_s` bytes each, lie there until the optimizer's step
    has ended. Beside them are at one time what a micro-batch keeps for its backward pass, with its logits,
    the weights of two layers and the gradients of one, and at another what the step itself makes new: the
    roots of the second moments of all values.

    .. math:: P b_s + \max\bigl(P b_o, \; T b (L v_k + v_l) + 3 T V b_v + N (2 b + b_r)\bigr)

    T are the tokens of a micro-batch, :math:`v_k` the values that each of L layers keeps of a token,
    :math:`v_l` those of a layer that is computed again, V the vocabulary, N the parameters of a layer.
    Megatron's buffers of gradients stay where they are. Not counted is what blocks of unequal sizes leave
    between them.

    Args:
        job: the update.

    Source: PyTorch ``torch/optim/adamw.py`` (``_multi_tensor_adamw``: ``_foreach_sqrt``), verl 0.9.1
    ``workers/engine/fsdp/transformer_impl.py`` (``train_batch``).
    """
    engine, megatron = job.engine, job.engine.backend is Backend.MEGATRON
    values = 0.0 if megatron else trained_values(job.model, engine)
    on_card = not (megatron or engine.fused_optimizer or engine.streamed_offload)
    roots = values * engine.optimizer_dtype.bytes if on_card else 0.0
    units = 0.0 if megatron else job.layer.parameters * _unit_bytes(job)
    return values * engine.stored_dtype.bytes + max(roots, _micro_batch_bytes(job) + units)


def taken_seconds(job: TimedPasses, there: float) -> float:
    """Seconds in which kernels of an update wait for memory that a step before it gave back in pages.

    All trainers of a node take theirs at once, and the driver serves one at a time. The host does so as it
    launches, so that kernels wait as far as it is not ahead of them.

    Args:
        job: the update.
        there: bytes of the pages that another update of the step has taken before.

    Source: PyTorch ``c10/cuda/CUDACachingAllocator.cpp`` (``ExpandableSegment::map``).
    """
    cluster = job.cluster
    taken_bytes = max(0.0, min(freed_bytes(job), cluster.gpu.memory_bytes) - there) * cluster.gpus_per_node
    return assume.TAKEN_SHARE * taken_bytes / assume.TAKEN_PAGES_BYTES_PER_S


def _unit_bytes(job: TimedPasses) -> int:
    reduced = 0 if job.engine.lora is not None else job.engine.reduce_dtype.bytes
    return _GATHERED * job.bytes_per_value + reduced


def _micro_batch_bytes(job: TimedPasses) -> float:
    """What one micro-batch keeps until its gradients are there, with its logits."""
    engine, model, head = job.engine, job.model, job.step_pass.head
    full = engine.checkpointing is Checkpointing.FULL
    of_layer = _kept_values(job.layer, fused=job.fused)
    kept_values = job.layer.hidden if full else of_layer
    layers = 0.0 if engine.activation_offload else model.layers / engine.parallel.pipeline
    of_layers = (layers * kept_values + (of_layer if full else 0.0)) * job.bytes_per_value
    logits = 0.0
    if head.kind is HeadKind.LOGITS:
        logits = _LOGITS * model.vocab * head.logits_dtype.bytes
    return job.micro.tokens * (of_layers + logits) / engine.parallel.tensor


def _kept_values(layer: LayerWork, *, fused: bool) -> float:
    """Values per token that one layer keeps where nothing is recomputed, in the compute dtype.

    Its norms their input in float32, which is two of them, and what they have normalised; attention and MLP
    their inputs, queries and keys before and after their rotation, and the gate, that activated, the other
    half, and their product.
    """
    norm, gated = (_FUSED_NORM, _FUSED_GATED) if fused else (_NORM, _GATED)
    values = layer.hidden * (layer.norms * norm + _INPUTS)
    values += layer.normed_query_keys * norm + layer.query_key_values * _ROTATED
    return values + layer.gated_values * gated
