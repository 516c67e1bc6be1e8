"""Registration with torch: custom operators with shapes for tracing and with gradients.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from typing import Any

import torch
from torch import Tensor

from tuner.kernels import backward, reference, tiles
from tuner.kernels.checks import checked_rows
from tuner.kernels.reference import Statistics
from tuner.kernels.rows import Rows
from tuner.kernels.tiles import Path


def _rows_contiguous(matrix: Tensor) -> Tensor:
    """The matrix as the kernels read it: elements of a row side by side, rows apart."""
    apart = matrix.stride(1) == 1 and matrix.stride(0) >= matrix.shape[1]
    return matrix if apart else matrix.contiguous()


def _room_for_logits(hidden_TH: Tensor, weight_VH: Tensor, keep: bool) -> Tensor:
    """For all rows, each beginning at a multiple of 16 bytes; empty where nothing is kept."""
    shape = (hidden_TH.shape[0], tiles.padded(weight_VH.shape[0], hidden_TH.dtype)) if keep else (0,)
    return hidden_TH.new_empty(shape)


def _head_statistics(
    hidden_RH: Tensor,
    weight_VH: Tensor,
    labels_R: Tensor,
    inverse_temperature_R: Tensor,
    saved_TV: Tensor | None,
    rows: Rows,
    outputs: Statistics,
) -> None:
    """Write the statistics of the rows worked on into the vectors of all rows."""
    path = tiles.choose_path(hidden_RH, weight_VH)
    if path is Path.REFERENCE:
        logits_RV = hidden_RH.float() @ weight_VH.float().T
        if saved_TV is not None:
            saved_TV[:, weight_VH.shape[0] :] = 0
            logits_RV = saved_TV[:, : weight_VH.shape[0]].copy_(logits_RV).float()
        found = reference.statistics(logits_RV, labels_R, inverse_temperature_R)
        for output, values in zip(outputs.vectors(), found.vectors(), strict=True):
            output.copy_(rows.put(values, output.numel()))
        return
    from tuner.kernels.forward import partial_statistics
    from tuner.kernels.statistics import merge

    tile = tiles.choose_tile(path, hidden_RH)
    partials_4SR = partial_statistics(
        path, tile, hidden_RH, weight_VH, labels_R, inverse_temperature_R, saved_TV
    )
    merge(partials_4SR, inverse_temperature_R, rows.index_R, outputs.vectors())


@torch.library.custom_op("tuner::linear_cross_entropy", mutates_args=())
def forward(
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    ignore_index: int,
    first_label: int,
    vocabulary: int,
    keep_logits: bool,
    slice_width: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Log-probability, entropy, maximum, log-sum, and the logits where they are kept (else empty).

    Args:
        hidden_TH: bfloat16, float16 or float32.
        weight_VH: same dtype; the rows of labels ``[first_label, first_label + V)``.
        labels_T: int32 or int64, in ``[0, vocabulary)`` or ``ignore_index``.
        inverse_temperature_T: float32.
        ignore_index: the label of rows that are left out: zero in every result.
        first_label: the label of the weight's first row.
        vocabulary: entries of the whole vocabulary.
        keep_logits: keep the logits in the dtype of ``hidden_TH`` and use the statistics of what is
            kept. The rows worked on come first; the rest is not written.
        slice_width: entries of a slice of the backward pass; 0 chooses it.
    """
    rows = checked_rows(labels_T, inverse_temperature_T, ignore_index=ignore_index, vocabulary=vocabulary)
    logits = _room_for_logits(hidden_TH, weight_VH, keep_logits)
    outputs = Statistics.like(labels_T, zero=rows.index_R is not None)
    if rows.count:
        with torch.autocast(hidden_TH.device.type, enabled=False):
            _head_statistics(
                _rows_contiguous(rows.take(hidden_TH)),
                _rows_contiguous(weight_VH),
                (rows.take(labels_T) - first_label).int(),
                rows.take(inverse_temperature_T),
                logits[: rows.count] if keep_logits else None,
                rows,
                outputs,
            )
    return outputs.log_probs, outputs.entropy, outputs.maximum, outputs.log_sum, logits


@forward.register_fake
def _(
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    ignore_index: int,
    first_label: int,
    vocabulary: int,
    keep_logits: bool,
    slice_width: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    outputs = Statistics.like(labels_T, zero=False)
    logits = _room_for_logits(hidden_TH, weight_VH, keep_logits)
    return outputs.log_probs, outputs.entropy, outputs.maximum, outputs.log_sum, logits


@torch.library.custom_op("tuner::linear_cross_entropy_backward", mutates_args=())
def gradients(
    d_log_probs_T: Tensor,
    d_entropy_T: Tensor,
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    log_probs_T: Tensor,
    entropy_T: Tensor,
    maximum_T: Tensor,
    log_sum_T: Tensor,
    logits: Tensor,
    ignore_index: int,
    first_label: int,
    slice_width: int,
    hidden_wanted: bool,
    weight_wanted: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the hidden states and of the weight; empty for one that is not wanted.

    Arguments as those and the results of the forward operator.
    """
    upstream = backward.Upstream(
        labels_T=labels_T,
        first_label=first_label,
        ignore_index=ignore_index,
        inverse_temperature_T=inverse_temperature_T,
        found=Statistics(maximum=maximum_T, log_sum=log_sum_T, log_probs=log_probs_T, entropy=entropy_T),
        d_log_probs_T=d_log_probs_T,
        d_entropy_T=d_entropy_T,
    )
    with torch.autocast(hidden_TH.device.type, enabled=False):
        d_hidden_TH, d_weight_VH = backward.head_gradients(
            _rows_contiguous(hidden_TH),
            _rows_contiguous(weight_VH),
            upstream,
            logits if logits.dim() == 2 else None,
            slice_width=slice_width,
            wanted=backward.Wanted(hidden=hidden_wanted, weight=weight_wanted),
        )
    return (
        hidden_TH.new_empty(0) if d_hidden_TH is None else d_hidden_TH,
        weight_VH.new_empty(0) if d_weight_VH is None else d_weight_VH,
    )


@gradients.register_fake
def _(
    d_log_probs_T: Tensor,
    d_entropy_T: Tensor,
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    log_probs_T: Tensor,
    entropy_T: Tensor,
    maximum_T: Tensor,
    log_sum_T: Tensor,
    logits: Tensor,
    ignore_index: int,
    first_label: int,
    slice_width: int,
    hidden_wanted: bool,
    weight_wanted: bool,
) -> tuple[Tensor, Tensor]:
    return (
        hidden_TH.new_empty(hidden_TH.shape if hidden_wanted else (0,)),
        weight_VH.new_empty(weight_VH.shape if weight_wanted else (0,)),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    hidden_TH, weight_VH, labels_T, inverse_temperature_T, ignore_index, first_label, _, _, width = inputs
    ctx.save_for_backward(hidden_TH, weight_VH, labels_T, inverse_temperature_T, *output)
    ctx.ignore_index, ctx.first_label, ctx.slice_width = ignore_index, first_label, width
    # Zeros for the unused gradient of the kept logits would be as large as they are.
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    found = ctx.saved_tensors
    d_log_probs_T, d_entropy_T = (
        torch.zeros_like(value) if grad is None else grad
        for grad, value in zip(grads[:2], found[4:6], strict=True)
    )
    hidden_wanted, weight_wanted = ctx.needs_input_grad[:2]
    d_hidden_TH, d_weight_VH = gradients(
        d_log_probs_T,
        d_entropy_T,
        *found,
        ctx.ignore_index,
        ctx.first_label,
        ctx.slice_width,
        hidden_wanted,
        weight_wanted,
    )
    kept = (d_hidden_TH if hidden_wanted else None, d_weight_VH if weight_wanted else None)
    return *kept, *(None,) * 7


forward.register_autograd(_differentiate, setup_context=_keep)
