"""Forward kernels: statistics of logits that never leave the registers, and of logits that exist.

T: rows (tokens). V: vocabulary entries. H: hidden size. S: splits of the vocabulary.

The first is persistent: each program takes items, a row tile and one split of the vocabulary, and carries the
running statistics of its rows across that split. No atomics, so the same bits twice. The float32
reference is :func:`tuner.kernels.reference.statistics`.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from tuner.kernels.product import TRITON_DTYPES, logits_tile, tile_position
from tuner.kernels.statistics import HIGHEST_INVERSE, INTERPRETED, LOG2E, LOWEST, add_tile
from tuner.kernels.tiles import READ_BLOCK, Path, Plan, choose_reading_split, choose_split


@triton.jit(do_not_specialize=["T", "row_tiles", "S", "split_tiles"])
def _statistics(
    hidden,
    weight,
    saved,  # [T, saved_stride], written where SAVE; of no meaning beyond V
    labels,
    inverse_temperature,
    partials,  # [4, S, T]
    row_extremes,  # of checks.extremes where ALL_OR_NONE: nothing is done unless all T rows take part rightly
    T,
    V,
    H,
    hidden_stride,
    weight_stride,
    saved_stride,
    row_tiles,
    S,
    split_tiles,
    SAVE: tl.constexpr,
    ALL_OR_NONE: tl.constexpr,
    INTERPRETED: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    STAGES: tl.constexpr,
    GROUP: tl.constexpr,
    DTYPE: tl.constexpr,
):
    items = row_tiles * S
    if ALL_OR_NONE:
        right = (
            (tl.load(row_extremes) == T)
            & (tl.load(row_extremes + 3) > 0)
            & (tl.load(row_extremes + 4) <= HIGHEST_INVERSE)
        )
        items = tl.where(right, items, 0)
    for item in tl.range(tl.program_id(0), items, tl.num_programs(0)):
        row_tile, split = tile_position(item, row_tiles, S, GROUP)
        rows = row_tile * ROWS + tl.arange(0, ROWS)
        valid = rows < T
        label = tl.load(labels + rows, mask=valid, other=-1)
        scale = tl.load(inverse_temperature + rows, mask=valid, other=1.0) * LOG2E
        maximum = tl.full((ROWS,), LOWEST, tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        weighted = tl.zeros((ROWS,), tl.float32)
        label_logit = tl.zeros((ROWS,), tl.float32)
        last = tl.minimum((split + 1) * split_tiles, tl.cdiv(V, COLUMNS))
        for column_tile in tl.range(split * split_tiles, last):
            first = column_tile * COLUMNS
            logits = logits_tile(
                hidden, weight, row_tile * ROWS, first, T, V, H, hidden_stride, weight_stride,
                INTERPRETED, ROWS, COLUMNS, DEPTH, STAGES,
            )  # fmt: skip
            columns = first + tl.arange(0, COLUMNS)
            if SAVE:
                # The statistics of what is kept, or probabilities would not add up to one.
                rounded = logits.to(DTYPE)
                logits = rounded.to(tl.float32)
                inside = valid[:, None] & (columns < saved_stride)[None, :]
                target = saved + rows.to(tl.int64)[:, None] * saved_stride + columns[None, :]
                tl.store(target, rounded, mask=inside)
            # Branches, not masks: one tile in hundreds ends the vocabulary or has a label in it.
            if first + COLUMNS > V:
                logits = tl.where((columns < V)[None, :], logits, LOWEST)
            maximum, total, weighted = add_tile(maximum, total, weighted, logits, scale)
            here = (label >= first) & (label < first + COLUMNS)
            if tl.max(here.to(tl.int32), 0) > 0:
                label_logit += tl.sum(tl.where(columns[None, :] == label[:, None], logits, 0.0), 1)
        target = partials + split * T + rows
        tl.store(target, maximum, mask=valid)
        tl.store(target + S * T, total, mask=valid)
        tl.store(target + 2 * S * T, weighted, mask=valid)
        tl.store(target + 3 * S * T, label_logit, mask=valid)


@triton.jit(do_not_specialize=["T", "S", "split_tiles"])
def _read_statistics(
    logits,
    sources,  # the row of ``logits`` that belongs to each row, where GATHER
    labels,
    inverse_temperature,
    partials,  # [4, S, T]
    T,
    V,
    S,
    split_tiles,
    logits_stride,
    GATHER: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0) + tl.arange(0, 1)
    split = tl.program_id(1)
    source = row.to(tl.int64)
    if GATHER:
        source = tl.load(sources + row)
    label = tl.load(labels + row)
    scale = tl.load(inverse_temperature + row) * LOG2E
    maximum = tl.full((1,), LOWEST, tl.float32)
    total = tl.zeros((1,), tl.float32)
    weighted = tl.zeros((1,), tl.float32)
    last = tl.minimum((split + 1) * split_tiles, tl.cdiv(V, BLOCK))
    for tile in range(split * split_tiles, last):
        columns = tile * BLOCK + tl.arange(0, BLOCK)[None, :]
        x = tl.load(logits + source[:, None] * logits_stride + columns, mask=columns < V, other=float("-inf"))
        x = x.to(tl.float32)
        # A filtered entry is -inf: probability zero, and 0 * -inf would be NaN.
        x = tl.where(x < LOWEST, LOWEST, x)
        maximum, total, weighted = add_tile(maximum, total, weighted, x, scale)
    first = split * split_tiles * BLOCK
    inside = (label >= first) & (label < tl.minimum(last * BLOCK, V))
    label_logit = tl.load(logits + source * logits_stride + label, mask=inside, other=0.0)
    target = partials + split * T + row
    tl.store(target, maximum)
    tl.store(target + S * T, total)
    tl.store(target + 2 * S * T, weighted)
    tl.store(target + 3 * S * T, label_logit.to(tl.float32))


def partial_statistics(
    plan: Plan,
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    saved_TV: Tensor | None,
    row_extremes: Tensor | None = None,
) -> Tensor:
    """Statistics of each split of the vocabulary, ``[4, S, T]`` in float32, of logits that are computed.

    Args:
        plan: which kernel, and what one program computes at a time.
        hidden_TH: at least one row; the last dimension contiguous, as in ``weight_VH``.
        weight_VH: same dtype.
        labels_T: int32; a negative label is found nowhere, its logit is zero.
        inverse_temperature_T: float32.
        saved_TV: takes the logits in its dtype; contiguous, its rows at least V and shorter than the
            last tile; None keeps none.
        row_extremes: :func:`tuner.kernels.checks.extremes` of these rows: nothing is computed, and the result
            has no meaning, where not all of them take part or a temperature is out of range. None: all is
            known to be right.
    """
    tile, (tokens, hidden) = plan.tile, hidden_TH.shape
    vocabulary = weight_VH.shape[0]
    split = choose_split(tile, tokens, vocabulary)
    partials_4ST = torch.empty((4, split.count, tokens), device=hidden_TH.device, dtype=torch.float32)
    vectors = (labels_T, inverse_temperature_T, partials_4ST, row_extremes)
    with torch.cuda.device_of(partials_4ST):
        if plan.path is Path.HOPPER:
            from tuner.kernels import hopper_forward

            hopper_forward.write_statistics(tile, split, hidden_TH, weight_VH, saved_TV, *vectors)
            return partials_4ST
        saved = hidden_TH if saved_TV is None else saved_TV
        row_tiles = triton.cdiv(tokens, tile.rows)
        _statistics[(min(tile.programs, row_tiles * split.count),)](
            hidden_TH,
            weight_VH,
            saved,
            labels_T,
            inverse_temperature_T,
            partials_4ST,
            partials_4ST if row_extremes is None else row_extremes,
            tokens,
            vocabulary,
            hidden,
            hidden_TH.stride(0),
            weight_VH.stride(0),
            saved.stride(0),
            row_tiles,
            split.count,
            split.tiles,
            SAVE=saved_TV is not None,
            ALL_OR_NONE=row_extremes is not None,
            INTERPRETED=INTERPRETED,
            ROWS=tile.rows,
            COLUMNS=tile.columns,
            DEPTH=tile.depth,
            STAGES=tile.stages,
            GROUP=tile.group,
            DTYPE=TRITON_DTYPES[saved.dtype],
            num_warps=tile.warps,
            num_stages=tile.stages,
        )
    return partials_4ST


def partial_statistics_of(
    logits_TV: Tensor, sources_R: Tensor | None, labels_R: Tensor, inverse_temperature_R: Tensor
) -> Tensor:
    """Statistics of each split of the vocabulary of logits that exist, ``[4, S, R]`` in float32.

    Args:
        logits_TV: the last dimension contiguous; an entry may be -inf.
        sources_R: int64, its rows that are read; None: all.
        labels_R: int32.
        inverse_temperature_R: float32.
    """
    (tokens,), vocabulary = labels_R.shape, logits_TV.shape[1]
    split = choose_reading_split(logits_TV.device, tokens, vocabulary)
    partials_4SR = torch.empty((4, split.count, tokens), device=logits_TV.device, dtype=torch.float32)
    with torch.cuda.device_of(logits_TV):
        _read_statistics[(tokens, split.count)](
            logits_TV,
            logits_TV if sources_R is None else sources_R,
            labels_R,
            inverse_temperature_R,
            partials_4SR,
            tokens,
            vocabulary,
            split.count,
            split.tiles,
            logits_TV.stride(0),
            GATHER=sources_R is not None,
            BLOCK=READ_BLOCK,
            num_warps=8,
        )
    return partials_4SR
