r"""Gradient of the logits, one slice of the vocabulary at a time: recomputed, or from logits that exist.

T: rows (tokens). V: vocabulary entries. H: hidden size. N: entries of the slice. C: coefficients.

With :math:`z = (x - m) c - \log_2 s`, so that :math:`p = 2^z`, and the upstream gradients
:math:`g_p` of the log-probability and :math:`g_H` of the entropy:

.. math:: \frac{\partial L}{\partial x_v} = G [v = l] - 2^{z_v} (A + B z_v), \quad
    G = \frac{g_p}{\tau}, \quad A = \frac{g_p + g_H \mathcal{H}}{\tau}, \quad B = \frac{g_H \ln 2}{\tau}

The six coefficients of a row are :func:`tuner.kernels.reference.row_coefficients`; the float32
reference is :func:`tuner.kernels.reference.d_logits`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tuner.kernels.product import TRITON_DTYPES, logits_tile, tile_position
from tuner.kernels.statistics import INTERPRETED, LOWEST
from tuner.kernels.tiles import READ_BLOCK, Path, Plan


@triton.jit(do_not_specialize=["T", "row_tiles", "start", "column_tiles"])
def _recompute(
    hidden,
    weight,
    d_logits,  # [T, N]
    labels,
    coefficients,  # [6, T]
    T,
    V,
    H,
    N,
    start,  # first entry of the slice
    hidden_stride,
    weight_stride,
    d_logits_stride,
    row_tiles,
    column_tiles,
    INTERPRETED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
    GROUP: tl.constexpr,
    DTYPE: tl.constexpr,
):
    for item in tl.range(tl.program_id(0), row_tiles * column_tiles, tl.num_programs(0)):
        row_tile, column_tile = tile_position(item, row_tiles, column_tiles, GROUP)
        first = column_tile * COLUMNS
        logits = logits_tile(
            hidden, weight, row_tile * ROWS, start + first, T, V, H, hidden_stride, weight_stride,
            INTERPRETED, ROWS, COLUMNS, DEPTH, STAGES,
        )  # fmt: skip
        rows = row_tile * ROWS + tl.arange(0, ROWS)
        valid = rows < T
        label = tl.load(labels + rows, mask=valid, other=-1) - start
        maximum = tl.load(coefficients + rows, mask=valid, other=0.0)
        scale = tl.load(coefficients + T + rows, mask=valid, other=0.0)
        log_sum = tl.load(coefficients + 2 * T + rows, mask=valid, other=0.0)
        constant = tl.load(coefficients + 3 * T + rows, mask=valid, other=0.0)
        slope = tl.load(coefficients + 4 * T + rows, mask=valid, other=0.0)
        at_label = tl.load(coefficients + 5 * T + rows, mask=valid, other=0.0)
        z = (logits - maximum[:, None]) * scale[:, None] - log_sum[:, None]
        gradient = -tl.exp2(z) * (constant[:, None] + slope[:, None] * z)
        columns = first + tl.arange(0, COLUMNS)
        gradient = tl.where(columns[None, :] == label[:, None], gradient + at_label[:, None], gradient)
        target = d_logits + rows.to(tl.int64)[:, None] * d_logits_stride + columns[None, :]
        tl.store(target, gradient.to(DTYPE), mask=valid[:, None] & (columns < N)[None, :])


@triton.jit(do_not_specialize=["T", "start"])
def _convert(
    logits,  # [at least T, at least V]
    d_logits,  # [T, N]
    labels,
    coefficients,  # [6, T]
    sources,  # the row of ``logits`` that belongs to each row, where GATHER
    count,  # rows that are written, where COUNTED; else all
    T,
    N,
    start,
    logits_stride,
    d_logits_stride,
    GATHER: tl.constexpr,
    COUNTED: tl.constexpr,
    BLOCK: tl.constexpr,
):
    # A block of one row: the interpreter cannot combine a scalar's mask with a block's.
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = columns < N
    if COUNTED:
        inside = inside & (row < tl.load(count))[:, None]
    maximum = tl.load(coefficients + row)[:, None]
    scale = tl.load(coefficients + T + row)[:, None]
    log_sum = tl.load(coefficients + 2 * T + row)[:, None]
    constant = tl.load(coefficients + 3 * T + row)[:, None]
    slope = tl.load(coefficients + 4 * T + row)[:, None]
    at_label = tl.load(coefficients + 5 * T + row)[:, None]
    label = tl.load(labels + row)[:, None] - start
    # A row without a gradient is not read: zero, whatever its logits.
    used = (constant != 0.0) | (slope != 0.0) | (at_label != 0.0)
    source = row
    if GATHER:
        source = tl.load(sources + row)
    x = tl.load(
        logits + source[:, None] * logits_stride + start + columns, mask=inside & used, other=float("-inf")
    )
    z = (x.to(tl.float32) - maximum) * scale - log_sum
    z = tl.where(z < LOWEST, LOWEST, z)  # a logit may be -inf
    gradient = -tl.exp2(z) * (constant + slope * z)
    gradient = tl.where(columns == label, gradient + at_label, gradient)
    gradient = tl.where(used, gradient, 0.0)
    target = d_logits + row[:, None] * d_logits_stride + columns
    tl.store(target, gradient.to(d_logits.dtype.element_ty), mask=inside)


def recompute(
    plan: Plan,
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    coefficients_CT: Tensor,
    start: int,
    d_logits_TN: Tensor,
) -> None:
    """Write the gradient of the logits of entries ``[start, start + N)``.

    Args:
        plan: which kernel, and what one program computes at a time; every plan makes the same logits, bit for
            bit.
        hidden_TH: at least one row; the last dimension contiguous, as in ``weight_VH``.
        weight_VH: the whole vocabulary, same dtype.
        labels_T: int32.
        coefficients_CT: float32, six rows, contiguous.
        start: first entry of the slice.
        d_logits_TN: in the gradient's dtype; rows may be further apart than N.
    """
    tile, (tokens, hidden) = plan.tile, hidden_TH.shape
    width = d_logits_TN.shape[1]
    row_tiles, column_tiles = triton.cdiv(tokens, tile.rows), triton.cdiv(width, tile.columns)
    with torch.cuda.device_of(hidden_TH):
        if plan.path is Path.HOPPER:
            from tuner.kernels.hopper_dlogits import write_gradient

            write_gradient(tile, hidden_TH, weight_VH, labels_T, coefficients_CT, start, d_logits_TN)
            return
        _recompute[(min(tile.programs, row_tiles * column_tiles),)](
            hidden_TH,
            weight_VH,
            d_logits_TN,
            labels_T,
            coefficients_CT,
            tokens,
            weight_VH.shape[0],
            hidden,
            width,
            start,
            hidden_TH.stride(0),
            weight_VH.stride(0),
            d_logits_TN.stride(0),
            row_tiles,
            column_tiles,
            INTERPRETED=INTERPRETED,
            ROWS=tile.rows,
            COLUMNS=tile.columns,
            DEPTH=tile.depth,
            STAGES=tile.stages,
            GROUP=tile.group,
            DTYPE=TRITON_DTYPES[d_logits_TN.dtype],
            num_warps=tile.warps,
            num_stages=tile.stages,
        )


def convert(
    logits_TV: Tensor,
    sources: Tensor | None,
    labels_T: Tensor,
    coefficients_CT: Tensor,
    start: int,
    d_logits_TN: Tensor,
    count: Tensor | None = None,
) -> None:
    """Write the logits' gradient from logits that exist; zero where the last three coefficients are zero.

    Args:
        logits_TV: the last dimension contiguous; rows may be longer than V.
        sources: int64 row of ``logits_TV`` for each row of the gradient; None where it is its own.
        labels_T: int32.
        coefficients_CT: float32, six rows, contiguous.
        start: first entry of the slice.
        d_logits_TN: rows may be further apart than N.
        count: rows of the gradient that are written, one int64 on the device; the logits behind them are
            only read. None: all rows.
    """
    tokens, width = d_logits_TN.shape
    block = min(READ_BLOCK, triton.next_power_of_2(width))
    with torch.cuda.device_of(logits_TV):
        _convert[(tokens, triton.cdiv(width, block))](
            logits_TV,
            d_logits_TN,
            labels_T,
            coefficients_CT,
            logits_TV if sources is None else sources,
            logits_TV if count is None else count,
            tokens,
            width,
            start,
            logits_TV.stride(0),
            d_logits_TN.stride(0),
            GATHER=sources is not None,
            COUNTED=count is not None,
            BLOCK=block,
            num_warps=8,
        )
