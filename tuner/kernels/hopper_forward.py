"""Forward kernel for Hopper: statistics of logits that never leave the registers, or of those that are kept.

T: rows (tokens). V: vocabulary entries. H: hidden size. S: splits of the vocabulary.

The sums and their order of work are those of :mod:`tuner.kernels.forward`; the loads and products are
:mod:`tuner.kernels.hopper`'s. The float32 reference is :func:`tuner.kernels.reference.statistics`.
"""

from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, tma

from tuner.kernels import hopper
from tuner.kernels.hopper import item_position, load_tiles, logits_layout, multiply, new_ring
from tuner.kernels.statistics import HIGHEST_INVERSE, LOG2E, LOWEST
from tuner.kernels.tiles import Split, Tile


@gluon.jit
def _add_both(first_a, first_b, second_a, second_b):
    return first_a + second_a, first_b + second_b


@gluon.jit
def _add_tile(maximum, total, weighted, logits, scale):
    """As :func:`tuner.kernels.statistics.add_tile`, both sums in one pass over the lanes."""
    highest = gl.maximum(maximum, gl.max(logits, 1))
    y = (logits - highest[:, None]) * scale[:, None]
    power = gl.exp2(y)
    sums, products = gl.reduce((power, power * y), 1, _add_both)
    shift = gl.where(total > 0.0, (maximum - highest) * scale, 0.0)
    decay = gl.exp2(shift)
    return highest, decay * total + sums, decay * (weighted + shift * total) + products


@gluon.jit
def _half_statistics(
    half,
    columns,
    empty,
    ready,
    saved,
    staging,
    vectors,
    sizes,
    T,
    V,
    LOWER: gl.constexpr,
    SAVE: gl.constexpr,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
):
    LAYOUT: gl.constexpr = logits_layout(COLUMNS)
    OF_ROWS: gl.constexpr = gl.SliceLayout(1, LAYOUT)
    OF_COLUMNS: gl.constexpr = gl.SliceLayout(0, LAYOUT)
    steps, row_tiles, S, split_tiles, column_tiles, _ = sizes
    labels, inverse_temperature, partials = vectors
    count = 0
    for item in range(gl.program_id(0), row_tiles * S, gl.num_programs(0)):
        row_tile, split = item_position(item, row_tiles, S, GROUP)
        first_row = row_tile * ROWS
        if LOWER:
            first_row += ROWS // 2
        rows = first_row + gl.arange(0, ROWS // 2, layout=OF_ROWS)
        valid = rows < T
        label = gl.load(labels + rows, mask=valid, other=-1)
        scale = gl.load(inverse_temperature + rows, mask=valid, other=1.0) * LOG2E
        maximum = gl.full([ROWS // 2], LOWEST, gl.float32, layout=OF_ROWS)
        total = gl.full([ROWS // 2], 0.0, gl.float32, layout=OF_ROWS)
        weighted = gl.full([ROWS // 2], 0.0, gl.float32, layout=OF_ROWS)
        label_logit = gl.full([ROWS // 2], 0.0, gl.float32, layout=OF_ROWS)
        last = gl.minimum((split + 1) * split_tiles, column_tiles)
        for column_tile in range(split * split_tiles, last):
            first = column_tile * COLUMNS
            logits, count = multiply(half, columns, empty, ready, count, steps, ROWS, COLUMNS, STAGES, LAYOUT)
            if SAVE:
                # The statistics of what is kept, or probabilities would not add up to one.
                rounded = logits.to(saved.dtype)
                logits = rounded.to(gl.float32)
                tma.store_wait(pendings=0)
                staging.store(rounded)
                fence_async_shared()
                tma.async_copy_shared_to_global(saved, [first_row, first], staging)
            # Branches, not masks: one tile in hundreds ends the vocabulary or has a label in it.
            entries = first + gl.arange(0, COLUMNS, layout=OF_COLUMNS)
            if first + COLUMNS > V:
                logits = gl.where((entries < V)[None, :], logits, LOWEST)
            maximum, total, weighted = _add_tile(maximum, total, weighted, logits, scale)
            here = (label >= first) & (label < first + COLUMNS)
            if gl.max(here.to(gl.int32), 0) > 0:
                label_logit += gl.sum(gl.where(entries[None, :] == label[:, None], logits, 0.0), 1)
        target = partials + split * T + rows
        gl.store(target, maximum, mask=valid)
        gl.store(target + S * T, total, mask=valid)
        gl.store(target + 2 * S * T, weighted, mask=valid)
        gl.store(target + 3 * S * T, label_logit, mask=valid)
    if SAVE:
        tma.store_wait(pendings=0)


@gluon.jit(do_not_specialize=["T", "row_tiles", "S", "split_tiles"])
def _statistics(
    hidden,
    weight,
    saved,  # [T, at least V], written where SAVE; of no meaning beyond V
    labels,
    inverse_temperature,
    partials,  # [4, S, T]
    row_extremes,  # of checks.extremes where ALL_OR_NONE: nothing is done unless all T rows take part rightly
    T,
    V,
    H,
    row_tiles,
    S,
    split_tiles,
    SAVE: gl.constexpr,
    ALL_OR_NONE: gl.constexpr,
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
    staging = upper  # not touched
    if SAVE:
        staging = gl.allocate_shared_memory(saved.dtype, [2, ROWS // 2, COLUMNS], saved.layout)
    vectors = (labels, inverse_temperature, partials)
    if ALL_OR_NONE:
        right = (
            (gl.load(row_extremes) == T)
            & (gl.load(row_extremes + 3) > 0)
            & (gl.load(row_extremes + 4) <= HIGHEST_INVERSE)
        )
        row_tiles = gl.where(right, row_tiles, 0)
    sizes = (gl.cdiv(H, DEPTH), row_tiles, S, split_tiles, gl.cdiv(V, COLUMNS), 0)
    gl.warp_specialize(
        [
            (
                _half_statistics,
                (
                    upper, columns, empty, ready, saved, staging.index(0), vectors, sizes, T, V,
                    False, SAVE, ROWS, COLUMNS, STAGES, GROUP,
                ),
            ),
            (
                _half_statistics,
                (
                    lower, columns, empty, ready, saved, staging.index(1), vectors, sizes, T, V,
                    True, SAVE, ROWS, COLUMNS, STAGES, GROUP,
                ),
            ),
            (load_tiles, (hidden, weight, ring, sizes, ROWS, COLUMNS, DEPTH, STAGES, GROUP)),
        ],
        [4, 1],
        [GROUP_REGISTERS, LOADING_REGISTERS],
    )  # fmt: skip


def write_statistics(
    tile: Tile,
    split: Split,
    hidden_TH: Tensor,
    weight_VH: Tensor,
    saved_TV: Tensor | None,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    partials_4ST: Tensor,
    row_extremes: Tensor | None,
) -> None:
    """Write the statistics of each split.

    Args as of :func:`tuner.kernels.forward.partial_statistics`, which makes room for them.
    """
    tokens, hidden = hidden_TH.shape
    row_tiles = -(-tokens // tile.rows)
    hidden_blocks, weight_blocks = hopper.operands(hidden_TH, weight_VH, tile)
    saved_blocks = hidden_blocks
    if saved_TV is not None:
        saved_blocks = hopper.descriptor(saved_TV, (tile.rows // 2, tile.columns))
    _statistics[(min(tile.programs, row_tiles * split.count),)](
        hidden_blocks,
        weight_blocks,
        saved_blocks,
        labels_T,
        inverse_temperature_T,
        partials_4ST,
        partials_4ST if row_extremes is None else row_extremes,
        tokens,
        weight_VH.shape[0],
        hidden,
        row_tiles,
        split.count,
        split.tiles,
        SAVE=saved_TV is not None,
        ALL_OR_NONE=row_extremes is not None,
        ROWS=tile.rows,
        COLUMNS=tile.columns,
        DEPTH=tile.depth,
        STAGES=hopper.slots(tile, storing=saved_TV is not None),
        GROUP=tile.group,
        GROUP_REGISTERS=hopper.GROUP_REGISTERS,
        LOADING_REGISTERS=hopper.LOADING_REGISTERS,
        num_warps=tile.warps,
        maxnreg=hopper.PLANNED_REGISTERS,
    )
