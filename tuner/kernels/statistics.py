r"""Running statistics of a row of logits, from which log-probability and entropy follow.

T: rows (tokens). S: splits of the vocabulary.

With :math:`c = \log_2 e / \tau` and :math:`y_v = (x_v - m) c \le 0`: the maximum :math:`m`, the sum
:math:`s = \sum_v 2^{y_v}`, the weighted sum :math:`d = \sum_v 2^{y_v} y_v` and the label's logit
:math:`x_l`. Then

.. math:: \log p_l = (x_l - m) / \tau - \ln s, \qquad \mathcal{H} = \ln s - \ln 2 \cdot d / s

Both terms of the entropy are at least zero, so nothing cancels and it is never negative. No sum
depends on the logits' offset. The float32 reference is :func:`tuner.kernels.reference.statistics`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.jit import JITFunction

from tuner.kernels import checks

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)
# Below every logit, and still finite when a temperature of 1e-6 divides it.
LOWEST = tl.constexpr(-1.0e30)
HIGHEST_INVERSE = tl.constexpr(checks.HIGHEST_INVERSE)
_MERGED_ROWS = 32


@triton.jit
def add_tile(maximum, total, weighted, logits, scale):
    """Statistics of the rows with one more tile of logits; ``total`` is zero before the first."""
    highest = tl.maximum(maximum, tl.max(logits, 1))
    y = (logits - highest[:, None]) * scale[:, None]
    power = tl.exp2(y)
    # Before the first tile the maximum is LOWEST, which is no logit's.
    shift = tl.where(total > 0.0, (maximum - highest) * scale, 0.0)
    decay = tl.exp2(shift)
    weighted = decay * (weighted + shift * total) + tl.sum(power * y, 1)
    total = decay * total + tl.sum(power, 1)
    return highest, total, weighted


INTERPRETED = not isinstance(add_tile, JITFunction)


@triton.jit
def _merged(partials, scale, t, valid, S, field_stride, split_stride, SPLITS: tl.constexpr):
    """Maximum, sum, weighted sum and label's logit of rows ``t`` over all splits."""
    split = tl.arange(0, SPLITS)
    source = partials + split[:, None] * split_stride + t[None, :]
    mask = (split < S)[:, None] & valid[None, :]
    part_maximum = tl.load(source, mask=mask, other=LOWEST)
    part_total = tl.load(source + field_stride, mask=mask, other=0.0)
    part_weighted = tl.load(source + 2 * field_stride, mask=mask, other=0.0)
    label = tl.sum(tl.load(source + 3 * field_stride, mask=mask, other=0.0), 0)

    highest = tl.max(part_maximum, 0)
    shift = (part_maximum - highest[None, :]) * scale[None, :]
    shift = tl.where(part_total > 0.0, shift, 0.0)
    decay = tl.exp2(shift)
    total = tl.sum(decay * part_total, 0)
    weighted = tl.sum(decay * (part_weighted + shift * part_total), 0)
    return highest, total, weighted, label


@triton.jit
def _merge(
    partials,  # [4, S, T]: maximum, sum, weighted sum, label's logit
    inverse_temperature,
    rows,  # where a row's results go, where SCATTER
    maximum,
    log_sum,
    log_probs,
    entropy,
    T,
    S,
    field_stride,
    split_stride,
    SCATTER: tl.constexpr,
    SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
):
    t = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    valid = t < T
    inverse = tl.load(inverse_temperature + t, mask=valid, other=1.0)
    highest, total, weighted, label = _merged(
        partials, inverse * LOG2E, t, valid, S, field_stride, split_stride, SPLITS
    )
    total = tl.where(valid, total, 1.0)
    log_total = tl.log(total)

    target = t
    if SCATTER:
        target = tl.load(rows + t, mask=valid, other=0)
    tl.store(maximum + target, highest, mask=valid)
    tl.store(log_sum + target, log_total, mask=valid)
    tl.store(log_probs + target, (label - highest) * inverse - log_total, mask=valid)
    tl.store(entropy + target, log_total - LN2 * (weighted / total), mask=valid)


@triton.jit
def _merge_splits(
    partials,  # [4, S, T]
    inverse_temperature,
    merged,  # [4, T]
    T,
    S,
    field_stride,
    split_stride,
    SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
):
    t = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    valid = t < T
    inverse = tl.load(inverse_temperature + t, mask=valid, other=1.0)
    highest, total, weighted, label = _merged(
        partials, inverse * LOG2E, t, valid, S, field_stride, split_stride, SPLITS
    )
    tl.store(merged + t, highest, mask=valid)
    tl.store(merged + T + t, total, mask=valid)
    tl.store(merged + 2 * T + t, weighted, mask=valid)
    tl.store(merged + 3 * T + t, label, mask=valid)


def merge(
    partials_4ST: Tensor,
    inverse_temperature_T: Tensor,
    rows: Tensor | None,
    outputs: tuple[Tensor, Tensor, Tensor, Tensor],
) -> None:
    """Merge the splits' statistics and write maximum, log-sum, log-probability and entropy.

    Args:
        partials_4ST: float32, the last dimension contiguous.
        inverse_temperature_T: float32, of these rows.
        rows: int64 index of each row in the outputs; None where it is the row's own number.
        outputs: float32 vectors in the order above.
    """
    _, splits, tokens = partials_4ST.shape
    with torch.cuda.device_of(partials_4ST):
        _merge[(triton.cdiv(tokens, _MERGED_ROWS),)](
            partials_4ST,
            inverse_temperature_T,
            partials_4ST if rows is None else rows,
            *outputs,
            tokens,
            splits,
            partials_4ST.stride(0),
            partials_4ST.stride(1),
            SCATTER=rows is not None,
            SPLITS=triton.next_power_of_2(splits),
            ROWS=_MERGED_ROWS,
        )


def merge_splits(partials_4ST: Tensor, inverse_temperature_T: Tensor) -> Tensor:
    """Merge the splits' statistics and no more: those of the rows, ``[4, T]``; arguments as above."""
    _, splits, tokens = partials_4ST.shape
    merged_4T = partials_4ST.new_empty((4, tokens))
    with torch.cuda.device_of(partials_4ST):
        _merge_splits[(triton.cdiv(tokens, _MERGED_ROWS),)](
            partials_4ST,
            inverse_temperature_T,
            merged_4T,
            tokens,
            splits,
            partials_4ST.stride(0),
            partials_4ST.stride(1),
            SPLITS=triton.next_power_of_2(splits),
            ROWS=_MERGED_ROWS,
        )
    return merged_4T
