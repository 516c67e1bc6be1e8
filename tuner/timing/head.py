"""Seconds of the output head: from the last hidden states to log-probabilities and entropy."""

from msgspec import Struct

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.timing import assumptions as assume
from tuner.timing.rates import copy_bytes_per_s, head_product_flop_per_s
from tuner.workload import HeadKind, OutputHead, Scaling


class HeadCost(Struct, frozen=True, kw_only=True):
    """Products of ``tokens x hidden x vocab`` and bytes per logit, forward and backward."""

    forward_products: int
    backward_products: int
    forward_bytes: float
    backward_bytes: float
    scaling_bytes: float = 0.0  # in each direction, of dividing by the temperature


_FUSED = {
    HeadKind.FUSED_TORCH: assume.FUSED_TORCH_BYTES,
    HeadKind.FUSED_TRITON: assume.FUSED_TRITON_BYTES,
    HeadKind.FUSED_LIGER: assume.FUSED_LIGER_BYTES,
    HeadKind.FUSED_TUNER: assume.FUSED_TUNER_BYTES,
}


def head_cost(head: OutputHead, *, entropy: bool) -> HeadCost:
    """What one pass through the head costs per token.

    Logits that exist take one product forward and two backward; a fused head computes them anew
    in the backward pass, a third product, and always yields the entropy too.
    """
    fused = _FUSED.get(head.kind)
    if fused is not None:
        return HeadCost(
            forward_products=1, backward_products=3, forward_bytes=fused[0], backward_bytes=fused[1]
        )
    forward, backward = _entropy_bytes(head) if entropy else _log_prob_bytes(head)
    scaling = 0.0 if head.scaling is Scaling.NONE else assume.SCALING_ACCESSES * head.logits_dtype.bytes
    return HeadCost(
        forward_products=1,
        backward_products=2,
        forward_bytes=forward,
        backward_bytes=backward,
        scaling_bytes=scaling,
    )


def _log_prob_bytes(head: OutputHead) -> tuple[float, float]:
    if head.float32_loss:
        shifted = [head.shifts_logits * count * head.logits_dtype.bytes for count in assume.SHIFT_ACCESSES]
        forward, backward = assume.FLOAT32_LOSS_BYTES
        return forward + shifted[0], backward + shifted[1]
    if head.log_softmax or head.takes_columns:
        return assume.LOG_SOFTMAX_BYTES
    accesses = (
        assume.CROSS_ENTROPY_ACCESSES if head.fused_cross_entropy else assume.UNFUSED_CROSS_ENTROPY_ACCESSES
    )
    return accesses[0] * head.logits_dtype.bytes, accesses[1] * head.logits_dtype.bytes


def _entropy_bytes(head: OutputHead) -> tuple[float, float]:
    if head.chunk_tokens is not None:
        forward, backward = assume.CHUNKED_ENTROPY_BYTES
    elif head.compiled:
        forward, backward = assume.COMPILED_ENTROPY_BYTES
    else:
        forward, backward = assume.EAGER_ENTROPY_BYTES
    recomputed = assume.RECOMPUTED_ENTROPY_SHARE * forward if head.checkpointed else 0.0
    return forward, backward + recomputed


def head_seconds(
    head: OutputHead,
    *,
    tokens: float,
    hidden: int,
    vocab: float,
    gpu: Gpu,
    dtype: DType,
    entropy: bool,
    trains: bool,
    sliced: float = 1.0,
) -> float:
    """Seconds of the head for one micro-batch: ``2 T H V`` FLOP per product, and traffic over bandwidth.

    Args:
        head: its implementation; a value head's single column costs nothing.
        tokens: on this GPU.
        hidden: width of the hidden states.
        vocab: columns on this GPU.
        gpu: rates.
        dtype: of the product's operands.
        entropy: whether the pass asks for the entropy.
        trains: forward and backward instead of forward alone.
        sliced: share of the tokens whose logits become log-probabilities and entropy: of padded sequences
            those of responses, though all of them are multiplied and divided by the temperature.
    """
    if head.kind is HeadKind.VALUE:
        return 0.0
    cost = head_cost(head, entropy=entropy)
    products = cost.forward_products + (cost.backward_products if trains else 0)
    directions = 2 if trains else 1
    of_loss = cost.forward_bytes + (cost.backward_bytes if trains else 0.0)
    bytes_per_logit = sliced * of_loss + directions * cost.scaling_bytes
    arithmetic = 2 * products * hidden / head_product_flop_per_s(gpu, dtype)
    traffic = bytes_per_logit / copy_bytes_per_s(gpu)
    return tokens * vocab * (arithmetic + traffic)
