"""The output head for callers: log-probability and entropy of labels, from hidden states.

T: rows (tokens). V: vocabulary entries, of this rank's shard where ranks share them. H: hidden size.
"""

from enum import Enum
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tuner.kernels import checks, ops, vocab_parallel

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Mode(str, Enum):
    """What is kept of the logits between the passes."""

    RECOMPUTE = "recompute"  # nothing: the backward pass computes them again, a slice at a time
    SAVED_LOGITS = "saved_logits"  # all of them, in the dtype of the hidden states


class Reduction(str, Enum):
    """What becomes of the log-probabilities."""

    NONE = "none"
    SUM = "sum"
    MEAN = "mean"


def _member(kind: type[Enum], value: str, name: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(member.value for member in kind)
        raise ValueError(f"{name} must be one of {names}, not {value!r}") from None


def reduce_log_probs(log_probs: Tensor, labels: Tensor, reduction: Enum, ignore_index: int) -> Tensor:
    """All, or their sum, or their mean over the rows that are not ignored (0 where there are none)."""
    if reduction is Reduction.NONE:
        return log_probs
    if reduction is Reduction.SUM:
        return log_probs.sum()
    return log_probs.sum() / (labels != ignore_index).sum().clamp(min=1)


def in_one_dtype(hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Under autocast both in its dtype, as for any linear layer."""
    kind = hidden.device.type
    if not torch.is_autocast_enabled(kind):
        return hidden, weight
    dtype = torch.get_autocast_dtype(kind)
    return hidden.to(dtype), weight.to(dtype)


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    temperature: float | Tensor = 1.0,
    reduction: str = "none",
    process_group: "ProcessGroup | None" = None,
    *,
    ignore_index: int = -100,
    mode: str = Mode.RECOMPUTE,
    slice_width: int = 0,
    sum_hidden_gradient: bool = True,
) -> tuple[Tensor, Tensor]:
    r"""Log-probability of each label and entropy of each distribution, with gradients of both.

    .. math:: x = h W^\top / \tau, \qquad \log p_l = x_l - \ln \sum_v e^{x_v}, \qquad
        \mathcal{H} = -\sum_v p_v \ln p_v

    The logits never exist as a whole, except where ``mode`` keeps them. The same input gives the same
    bits. Rows with an ignored label cost nothing, and rows whose gradients of both results are zero
    cost nothing in the backward pass.

    Both passes read from the device which rows these are, the forward pass together with whether
    labels and temperatures are in range: the host waits, and no CUDA graph holds them.

    With a process group each rank has its shard of the weight, of any size, and the same rows; the
    results are the same on all ranks, bit for bit, and so must be their upstream gradients. Each rank
    sends 72 bytes and, of each row that is not ignored, 16 bytes in the forward pass; in the backward
    pass 1 byte of each row, and an all-reduce sums 4 H bytes of each row with a gradient.

    Args:
        hidden: ``[..., H]``, bfloat16, float16 or float32, any strides.
        weight: ``[V, H]``, the dtype of ``hidden``; under autocast both are cast to its dtype. Of the
            rank with number r in the group, the entries that follow those of the ranks before it.
        labels: ``[...]``, int64 or int32, in ``[0, V)`` or ``ignore_index``; with a group, of the whole
            vocabulary.
        temperature: a number, or a tensor with one element or shaped like ``labels``; at least 1e-6.
            It gets no gradient.
        reduction: of the log-probabilities: ``none``, ``sum``, or ``mean`` over the rows that are not
            ignored. The entropy is always that of each row.
        process_group: the ranks over which the vocabulary is shared out; all of them call this.
        ignore_index: the label of rows that are left out: zero in both results.
        mode: ``recompute`` takes the least memory, four matrix products in all; ``saved_logits`` keeps
            the logits in the dtype of ``hidden`` and takes three. Its results are those of the
            logits as kept. The buffer has a row for every row given, ignored ones too.
        slice_width: vocabulary entries of one slice of the backward pass, whose gradient exists at a
            time; 0 chooses it.
        sum_hidden_gradient: sum the gradient of ``hidden`` over the group, in float32. False leaves
            this rank's part, for callers that sum: the backward pass of Megatron-Core's
            ``gather_from_sequence_parallel_region`` does, and verl's function leaves it to that.

    Returns:
        Log-probabilities and entropy, float32, shaped like ``labels`` (a scalar for ``sum`` and ``mean``).

    Raises:
        ValueError: an argument of the wrong shape, dtype, device or value; it says which. On all ranks
            where values are wrong, or rows are not the same on all.

    Source: the formulas in :mod:`tuner.kernels.statistics` and :mod:`tuner.kernels.dlogits`.
    """
    chosen_mode = _member(Mode, mode, "mode")
    reduced = _member(Reduction, reduction.lower(), "reduction")
    if slice_width < 0:
        raise ValueError(f"slice_width must be at least 0, not {slice_width}")
    hidden, weight = in_one_dtype(hidden, weight)
    checks.check_matrices(hidden, weight)
    checks.check_labels(labels, hidden, "hidden")
    log_probs, entropy, *_ = ops.forward(
        hidden.reshape(-1, hidden.shape[-1]),
        weight,
        labels.reshape(-1),
        checks.inverse_temperatures(temperature, labels),
        ignore_index,
        # Without a backward pass nobody reads them.
        chosen_mode is Mode.SAVED_LOGITS
        and torch.is_grad_enabled()
        and (hidden.requires_grad or weight.requires_grad),
        slice_width,
        vocab_parallel.group_name(process_group),
        sum_hidden_gradient,
    )
    log_probs = reduce_log_probs(log_probs.reshape(labels.shape), labels, reduced, ignore_index)
    return log_probs, entropy.reshape(labels.shape)
