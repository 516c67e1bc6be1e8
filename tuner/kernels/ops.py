"""Registration with torch: custom operators with shapes for tracing and with gradients.

T: rows (tokens). V: vocabulary entries, of this rank's shard where ranks share them. H: hidden size.

A process group goes by its name, since operators take no objects; empty is none.
"""

from typing import Any

import torch
from torch import Tensor

from tuner.kernels import backward, checks, tiles, vocab_parallel
from tuner.kernels.head_statistics import Parts, statistics_by_parts
from tuner.kernels.reference import Statistics
from tuner.kernels.rows import Rows
from tuner.kernels.tiles import Path


def rows_contiguous(matrix: Tensor) -> Tensor:
    """The matrix as the kernels read it: elements of a row side by side, rows apart."""
    apart = matrix.stride(1) == 1 and matrix.stride(0) >= matrix.shape[1]
    return matrix if apart else matrix.contiguous()


def _room_for_logits(hidden_TH: Tensor, weight_VH: Tensor, keep: bool) -> Tensor:
    """For all rows, each beginning at a multiple of 16 bytes; empty where nothing is kept."""
    shape = (hidden_TH.shape[0], tiles.padded(weight_VH.shape[0], hidden_TH.dtype)) if keep else (0,)
    return hidden_TH.new_empty(shape)


def _parts(
    rows: Rows,
    matrices: tuple[Tensor, Tensor],
    vectors: tuple[Tensor, Tensor],
    logits: Tensor | None,
    shard: tuple[str, int] = ("", 0),
    row_extremes: Tensor | None = None,
) -> Parts:
    """The statistics of these rows of the arguments.

    Args:
        rows: those worked on.
        matrices: hidden states of all rows, and the weight.
        vectors: labels and inverse temperatures of all rows.
        logits: take those of the rows worked on; None keeps none.
        shard: the group that shares the vocabulary and this rank's first label.
        row_extremes: of :func:`statistics_by_parts`.
    """
    (hidden_TH, weight_VH), (labels_T, inverse_temperature_T), (group, first_label) = matrices, vectors, shard
    labels_R = rows.take(labels_T)
    return statistics_by_parts(
        rows_contiguous(rows.take(hidden_TH)),
        rows_contiguous(weight_VH),
        vocab_parallel.labels_within(labels_R, first_label, weight_VH.shape[0]) if group else labels_R.int(),
        rows.take(inverse_temperature_T),
        None if logits is None else logits[: rows.count],
        group=group,
        row_extremes=row_extremes,
    )


@torch.library.custom_op("tuner::linear_cross_entropy", mutates_args=())
def forward(
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    ignore_index: int,
    keep_logits: bool,
    slice_width: int,
    group: str,
    sum_hidden: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Log-probability, entropy, maximum, log-sum, logits where they are kept (else empty), first label.

    The first label, that of the weight's first row, is one int64 on the host.

    Args:
        hidden_TH: bfloat16, float16 or float32.
        weight_VH: same dtype; of the rank with number r, the entries after those of ranks below r.
        labels_T: int32 or int64, in the whole vocabulary, or ``ignore_index``.
        inverse_temperature_T: float32.
        ignore_index: the label of rows that are left out: zero in every result.
        keep_logits: keep the logits in the dtype of ``hidden_TH`` and use the statistics of what is
            kept. The rows worked on come first; the rest is not written.
        slice_width: entries of a slice of the backward pass; 0 chooses it.
        group: ranks that share the vocabulary.
        sum_hidden: sum the gradient of the hidden states over them, in the backward pass.
    """
    matrices, vectors = (hidden_TH, weight_VH), (labels_T, inverse_temperature_T)
    vocabulary = weight_VH.shape[0]
    logits = _room_for_logits(hidden_TH, weight_VH, keep_logits)
    saved_logits, first_label = logits if keep_logits else None, 0
    parts: Parts | None = None
    with torch.autocast(hidden_TH.device.type, enabled=False):
        if group:
            rows, first_label = vocab_parallel.checked_rows(
                hidden_TH, *vectors, shard=vocabulary, ignore_index=ignore_index, name=group
            )
        else:
            look = checks.look_at_rows(*vectors, ignore_index=ignore_index, vocabulary=vocabulary)
            if labels_T.numel() and tiles.choose_path(*matrices) is not Path.REFERENCE:
                # Before the wait, so that the GPU has work; nothing is computed where rows are ignored.
                every_row = Rows(index_R=None, count=labels_T.numel())
                parts = _parts(every_row, matrices, vectors, saved_logits, row_extremes=look.on_device)
            rows = look.rows()
        if rows.count and (parts is None or rows.index_R is not None):
            parts = None  # its memory goes before more is taken
            parts = _parts(rows, matrices, vectors, saved_logits, (group, first_label))
        outputs = Statistics.like(labels_T, zero=rows.index_R is not None)
        if rows.count and parts is not None:
            parts.write(rows, outputs)
    return (
        outputs.log_probs,
        outputs.entropy,
        outputs.maximum,
        outputs.log_sum,
        logits,
        torch.tensor(first_label, device="cpu"),
    )


@forward.register_fake
def _(
    hidden_TH: Tensor,
    weight_VH: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    ignore_index: int,
    keep_logits: bool,
    slice_width: int,
    group: str,
    sum_hidden: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    outputs = Statistics.like(labels_T, zero=False)
    logits = _room_for_logits(hidden_TH, weight_VH, keep_logits)
    return (
        outputs.log_probs,
        outputs.entropy,
        outputs.maximum,
        outputs.log_sum,
        logits,
        torch.empty((), dtype=torch.int64, device="cpu"),
    )


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
    first_label: Tensor,
    ignore_index: int,
    slice_width: int,
    group: str,
    sum_hidden: bool,
    hidden_wanted: bool,
    weight_wanted: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of the hidden states and of the weight; empty for one that is not wanted.

    Arguments as those and the results of the forward operator.
    """
    upstream = backward.Upstream(
        labels_T=labels_T,
        first_label=int(first_label),
        ignore_index=ignore_index,
        inverse_temperature_T=inverse_temperature_T,
        statistics=Statistics(maximum=maximum_T, log_sum=log_sum_T, log_probs=log_probs_T, entropy=entropy_T),
        d_log_probs_T=d_log_probs_T,
        d_entropy_T=d_entropy_T,
    )
    with torch.autocast(hidden_TH.device.type, enabled=False):
        d_hidden_TH, d_weight_VH = backward.head_gradients(
            rows_contiguous(hidden_TH),
            rows_contiguous(weight_VH),
            upstream,
            logits if logits.dim() == 2 else None,
            slice_width=slice_width,
            wanted=backward.Wanted(hidden=hidden_wanted, weight=weight_wanted),
            group=group if sum_hidden else "",
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
    first_label: Tensor,
    ignore_index: int,
    slice_width: int,
    group: str,
    sum_hidden: bool,
    hidden_wanted: bool,
    weight_wanted: bool,
) -> tuple[Tensor, Tensor]:
    return (
        hidden_TH.new_empty(hidden_TH.shape if hidden_wanted else (0,)),
        weight_VH.new_empty(weight_VH.shape if weight_wanted else (0,)),
    )


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ignore_index, _, slice_width, group, sum_hidden = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.settings = (ignore_index, slice_width, group, sum_hidden)
    # Zeros for the unused gradient of the kept logits would be as large as they are.
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    d_log_probs_T, d_entropy_T = (
        torch.zeros_like(value) if grad is None else grad
        for grad, value in zip(grads[:2], saved[4:6], strict=True)
    )
    wanted = ctx.needs_input_grad[:2]
    computed = gradients(d_log_probs_T, d_entropy_T, *saved, *ctx.settings, *wanted)
    input_gradients = (grad if use else None for grad, use in zip(computed, wanted, strict=True))
    return *input_gradients, *(None,) * 7


forward.register_autograd(_differentiate, setup_context=_keep)
