"""One tile of logits: device functions that the portable forward and backward kernels share.

T: rows (tokens). V: vocabulary entries. H: hidden size.
``hidden`` and ``weight`` point to rows that are ``hidden_stride`` and ``weight_stride`` elements
apart. The float32 reference is ``hidden_TH @ weight_VH.T`` in :mod:`tuner.kernels.reference`.
"""

import torch
import triton
import triton.language as tl

TRITON_DTYPES = {
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
    torch.float32: tl.float32,
}


@triton.jit
def tile_position(item, row_tiles, column_tiles, GROUP: tl.constexpr):
    """Row and column tile of an item: GROUP row tiles take their turn with each column tile."""
    in_group = GROUP * column_tiles
    first = item // in_group * GROUP
    height = tl.minimum(row_tiles - first, GROUP)
    return first + item % in_group % height, item % in_group // height


@triton.jit
def logits_tile(
    hidden,
    weight,
    row,
    column,
    T,
    V,
    H,
    hidden_stride,
    weight_stride,
    INTERPRETED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
):
    """float32 logits of ROWS rows from ``row`` and COLUMNS entries from ``column``.

    What lies beyond T and V is of no meaning: the last row and entry again.
    """
    logits = tl.zeros((ROWS, COLUMNS), tl.float32)
    steps = tl.cdiv(H, DEPTH)
    # Clamped, not masked: a load without a mask is wide.
    rows = tl.minimum(row + tl.arange(0, ROWS), T - 1).to(tl.int64)
    columns = tl.minimum(column + tl.arange(0, COLUMNS), V - 1).to(tl.int64)
    depth = tl.arange(0, DEPTH)
    a_pointers = hidden + rows[:, None] * hidden_stride + depth[None, :]
    b_pointers = weight + columns[None, :] * weight_stride + depth[:, None]
    for step in tl.range(0, steps, num_stages=STAGES):
        left = H - step * DEPTH
        a = tl.load(a_pointers + step * DEPTH, mask=depth[None, :] < left, other=0.0)
        b = tl.load(b_pointers + step * DEPTH, mask=depth[:, None] < left, other=0.0)
        # The interpreter keeps bfloat16 as integers and multiplies them as such.
        if INTERPRETED:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        logits = tl.dot(a, b, logits, input_precision="ieee")
    return logits
