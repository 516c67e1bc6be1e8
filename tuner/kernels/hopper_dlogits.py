"""Gradient of the logits of one slice of the vocabulary on Hopper, from logits that are recomputed.

T: rows (tokens). V: vocabulary entries. H: hidden size. N: entries of the slice.

The formula is that of :mod:`tuner.kernels.dlogits`; the loads and products are
:mod:`tuner.kernels.hopper`'s, so that the logits are those of the forward pass, bit for bit. The float32
reference is :func:`tuner.kernels.reference.d_logits`.
"""

from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

from tuner.kernels import hopper
from tuner.kernels.hopper import item_position, load_tiles, logits_layout, multiply, new_ring
from tuner.kernels.tiles import Tile


@gluon.jit
def _half_gradient(
    half,
    columns,
    empty,
    ready,
    d_logits,
    staging,
    labels,
    coefficients,
    sizes,
    T,
    LOWER: gl.constexpr,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
):
    LAYOUT: gl.constexpr = logits_layout(COLUMNS)
    OF_ROWS: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    OF_COLUMNS: gl.constexpr = gl.SliceLayout(0, LAYOUT)
    steps, row_tiles, column_tiles, _, _, start = sizes
    count = 0
    for item in range(gl.program_id(0), row_tiles * column_tiles, gl.num_programs(0)):
        row_tile, column_tile = item_position(item, row_tiles, column_tiles, GROUP)
        first_row, first = row_tile * ROWS, column_tile * COLUMNS
        if LOWER:
            first_row += ROWS // 2
        rows = first_row + gl.arange(0, ROWS // 2, layout=OF_ROWS)
        valid = rows < T
        # Before the product: they come while it runs.
        label = gl.load(labels + rows, mask=valid, other=-1) - start
        maximum = gl.load(coefficients + rows, mask=valid, other=0.0)
        scale = gl.load(coefficients + T + rows, mask=valid, other=0.0)
        log_sum = gl.load(coefficients + 2 * T + rows, mask=valid, other=0.0)
        constant = gl.load(coefficients + 3 * T + rows, mask=valid, other=0.0)
        slope = gl.load(coefficients + 4 * T + rows, mask=valid, other=0.0)
        at_label = gl.load(coefficients + 5 * T + rows, mask=valid, other=0.0)
        logits, count = multiply(half, columns, empty, ready, count, steps, ROWS, COLUMNS, STAGES, LAYOUT)
        z = (logits - maximum[:, None]) * scale[:, None] - log_sum[:, None]
        gradient = -gl.exp2(z) * (constant[:, None] + slope[:, None] * z)
        # A branch: one tile in hundreds has a label in it.
        here = (label >= first) & (label < first + COLUMNS)
        if gl.max(here.to(gl.int32), 0) > 0:
            entries = first + gl.arange(0, COLUMNS, layout=OF_COLUMNS)
            gradient = gl.where(entries[None, :] == label[:, None], gradient + at_label[:, None], gradient)
        tma.store_wait(pendings=0)  # the tile before this one has left
        staging.store(gradient.to(d_logits.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(d_logits, [first_row, first], staging)
    tma.store_wait(pendings=0)


@gluon.jit(do_not_specialize=["T", "start", "row_tiles", "column_tiles"])
def _recompute(
    hidden,
    weight,
    d_logits,  # [T, N]
    labels,
    coefficients,  # [6, T]
    T,
    H,
    start,  # first entry of the slice
    row_tiles,
    column_tiles,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    DEPTH: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
    GROUP_REGISTERS: gl.constexpr,
    LOADING_REGISTERS: gl.constexpr,
):
    ring = new_ring(hidden, weight, ROWS, COLUMNS, DEPTH, STAGES)
    upper, lower, columns, empty, ready = ring
    staging = gl.allocate_shared_memory(d_logits.dtype, [2, ROWS // 2, COLUMNS], d_logits.layout)
    sizes = (gl.cdiv(H, DEPTH), row_tiles, column_tiles, 1, column_tiles, start)
    gl.warp_specialize(
        [
            (
                _half_gradient,
                (
                    upper, columns, empty, ready, d_logits, staging.index(0), labels, coefficients, sizes, T,
                    False, ROWS, COLUMNS, STAGES, GROUP,
                ),
            ),
            (
                _half_gradient,
                (
                    lower, columns, empty, ready, d_logits, staging.index(1), labels, coefficients, sizes, T,
                    True, ROWS, COLUMNS, STAGES, GROUP,
                ),
            ),
            (load_tiles, (hidden, weight, ring, sizes, ROWS, COLUMNS, DEPTH, STAGES, GROUP)),
        ],
        [4, 1],
        [GROUP_REGISTERS, LOADING_REGISTERS],
    )  # fmt: skip


def write_gradient(
    tile: Tile,
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    coefficients_CT: Tensor,
    start: int,
    d_logits_TN: Tensor,
) -> None:
    """Write the gradient; arguments as :func:`tuner.kernels.dlogits.recompute`."""
    tokens, hidden = hidden_TH.shape
    row_tiles, column_tiles = -(-tokens // tile.rows), -(-d_logits_TN.shape[1] // tile.columns)
    _recompute[(min(tile.programs, row_tiles * column_tiles),)](
        *hopper.operands(hidden_TH, weight_VH, tile),
        hopper.descriptor(d_logits_TN, (tile.rows // 2, tile.columns)),
        labels_T,
        coefficients_CT,
        tokens,
        hidden,
        start,
        row_tiles,
        column_tiles,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        DEPTH=tile.depth,
        STAGES=hopper.slots(tile, storing=True),
        GROUP=tile.group,
        GROUP_REGISTERS=hopper.GROUP_REGISTERS,
        LOADING_REGISTERS=hopper.LOADING_REGISTERS,
        num_warps=tile.warps,
        maxnreg=hopper.PLANNED_REGISTERS,
    )
