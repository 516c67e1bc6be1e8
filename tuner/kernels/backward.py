"""Backward pass in slices of the vocabulary: the gradient of the logits never exists as a whole.

T: rows given. R: rows with a gradient. V: vocabulary entries. H: hidden size. N: entries of a slice.

Each slice's gradient of the weight is written once, in one product over all rows; the hidden
states' is the sum over slices, kept in float32 and rounded at the end. No atomics. Where ranks share
the vocabulary it is the sum over their slices too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tuner.kernels import reference, rows, slices, tiles, vocab_parallel
from tuner.kernels.measured_tiles import choose_plan
from tuner.kernels.reference import Statistics
from tuner.kernels.slices import Slice
from tuner.kernels.tiles import Path, Plan, TileWork

Writer = Callable[[int, Tensor], None]  # first entry of the slice, where its gradient goes


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which gradients a pass computes."""

    hidden: bool
    weight: bool


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """The rows' labels, statistics and upstream gradients (float32)."""

    labels_T: Tensor  # int32 or int64
    first_label: int  # of the weight's first row
    ignore_index: int  # the label of rows without a result
    inverse_temperature_T: Tensor
    statistics: Statistics
    d_log_probs_T: Tensor
    d_entropy_T: Tensor

    def coefficients(self) -> Tensor:
        """The numbers from which the gradient of each row's logits follows, ``[6, T]``."""
        return reference.row_coefficients(
            self.statistics, self.inverse_temperature_T, self.d_log_probs_T, self.d_entropy_T
        )


def accumulate(total: Tensor, left: Tensor, right: Tensor, *, first: bool) -> None:
    """``total`` (float32) becomes or gains ``left @ right``, added in float32."""
    wide = left.is_cuda and torch.version.hip is None and left.dtype != torch.float32
    if not wide:  # nowhere else does the product of 16-bit matrices come out in float32
        left, right = left.float(), right.float()
    if wide and first:
        torch.mm(left, right, out_dtype=torch.float32, out=total)
    elif wide:
        torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    elif first:
        torch.mm(left, right, out=total)
    else:
        total.addmm_(left, right)


def _recomputing(
    plan: Plan, hidden_RH: Tensor, weight_VH: Tensor, labels_R: Tensor, coefficients_CR: Tensor
) -> Writer:
    """A writer of slices of the logits' gradient that computes the logits anew."""

    def write(start: int, d_logits_RN: Tensor) -> None:
        if plan.path is not Path.REFERENCE:
            from tuner.kernels.dlogits import recompute

            recompute(plan, hidden_RH, weight_VH, labels_R, coefficients_CR, start, d_logits_RN)
            return
        part_NH = weight_VH[start : start + d_logits_RN.shape[1]]
        logits_RN = hidden_RH.float() @ part_NH.float().T
        d_logits_RN.copy_(reference.d_logits(logits_RN, labels_R, coefficients_CR, start))

    return write


def converting(
    path: Path,
    saved_TV: Tensor,
    sources_R: Tensor | None,
    labels_R: Tensor,
    coefficients_CR: Tensor,
    count: Tensor | None = None,
) -> Writer:
    """A writer of slices of the logits' gradient that reads the logits kept by the forward pass.

    Rows of a slice are written up to the count, which the device alone knows; None: all rows.
    """

    def write(start: int, d_logits_RN: Tensor) -> None:
        if path is not Path.REFERENCE:
            from tuner.kernels.dlogits import convert

            convert(saved_TV, sources_R, labels_R, coefficients_CR, start, d_logits_RN, count)
            return
        written = slice(None if count is None else int(count))
        part_TN = saved_TV[:, start : start + d_logits_RN.shape[1]]
        part_RN = part_TN[written] if sources_R is None else part_TN[sources_R[written]]
        gradient_RN = reference.d_logits(part_RN, labels_R[written], coefficients_CR[:, written], start)
        d_logits_RN[written].copy_(gradient_RN)

    return write


def _sum_slices(
    write: Writer, hidden_RH: Tensor, weight_VH: Tensor, parts: Sequence[Slice], wanted: Wanted, group: str
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the hidden states and of the weight, of the rows worked on."""
    count = hidden_RH.shape[0]
    d_hidden_RH = hidden_RH.new_empty(hidden_RH.shape if wanted.hidden else (0,), dtype=torch.float32)
    d_weight_VH = weight_VH.new_empty(weight_VH.shape if wanted.weight else (0,))
    widest = max((part.width for part in parts if not part.in_weight), default=0)
    buffer_RN = hidden_RH.new_empty((count, tiles.padded(widest, hidden_RH.dtype)))
    for part in parts:
        stop = part.start + part.width
        room_RN = buffer_RN
        if part.in_weight:
            room_RN = slices.room_in(d_weight_VH, count, tiles.padded(part.width, hidden_RH.dtype))
        d_logits_RN = room_RN[:, : part.width]
        write(part.start, d_logits_RN)
        if wanted.hidden:
            accumulate(d_hidden_RH, d_logits_RN, weight_VH[part.start : stop], first=part.start == 0)
        if wanted.weight:
            torch.mm(d_logits_RN.T, hidden_RH, out=d_weight_VH[part.start : stop])
    del buffer_RN, room_RN, d_logits_RN  # before the last copy is made
    if wanted.hidden and group:
        vocab_parallel.add_up(d_hidden_RH, group)
    return d_hidden_RH.to(hidden_RH.dtype) if wanted.hidden else None, d_weight_VH if wanted.weight else None


def head_gradients(
    hidden_TH: Tensor,
    weight_VH: Tensor,
    upstream: Upstream,
    saved_TV: Tensor | None,
    *,
    slice_width: int,
    wanted: Wanted,
    group: str = "",
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of the hidden states and of the weight, in their dtypes; None for one not wanted.

    Args:
        hidden_TH: the last dimension contiguous, as in ``weight_VH``.
        weight_VH: same dtype.
        upstream: of all rows.
        saved_TV: the logits that the forward pass kept: first those of all rows that are not ignored.
        slice_width: entries of a slice; 0 chooses it.
        wanted: which gradients.
        group: name of the process group over which the hidden states' is summed; empty: none.
    """
    active_T = upstream.labels_T != upstream.ignore_index
    moved_T = active_T & ((upstream.d_log_probs_T != 0) | (upstream.d_entropy_T != 0))
    if group and wanted.hidden:
        # One upstream gradient on all ranks leaves it as it is. Another must not leave ranks waiting.
        moved_T = vocab_parallel.anywhere(moved_T, group)
    coefficients_CT = upstream.coefficients()  # before the wait, so that the GPU has work meanwhile
    chosen = rows.select(moved_T)
    if chosen.count == 0:
        return (
            torch.zeros_like(hidden_TH) if wanted.hidden else None,
            torch.zeros_like(weight_VH) if wanted.weight else None,
        )
    hidden_RH = chosen.take(hidden_TH)
    labels_R = (chosen.take(upstream.labels_T) - upstream.first_label).int()
    coefficients_CR = chosen.take(coefficients_CT, dim=1)
    del coefficients_CT
    plan = choose_plan(TileWork.GRADIENT, hidden_RH, weight_VH)
    if saved_TV is None:
        write = _recomputing(plan, hidden_RH, weight_VH, labels_R, coefficients_CR)
    else:
        sources_R = None if chosen.index_R is None else chosen.take(rows.positions(active_T))
        write = converting(plan.path, saved_TV, sources_R, labels_R, coefficients_CR)
    vocabulary = weight_VH.shape[0]
    if slice_width:
        parts = slices.uniform(vocabulary, slice_width)
    else:
        parts = slices.cut(plan.tile, hidden_RH, vocabulary, weight_wanted=wanted.weight)
    d_hidden_RH, d_weight_VH = _sum_slices(write, hidden_RH, weight_VH, tuple(parts), wanted, group)
    total = hidden_TH.shape[0]
    return None if d_hidden_RH is None else chosen.put(d_hidden_RH, total), d_weight_VH
