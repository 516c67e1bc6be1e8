"""Log-probability and entropy from logits that exist, with gradients: two passes over them in all.

T: rows (tokens). V: vocabulary entries.
"""

from typing import Any

import torch
from torch import Tensor

from tuner.kernels import checks, reference, tiles
from tuner.kernels.reference import Statistics
from tuner.kernels.rows import Rows


def _write_statistics(
    logits_TV: Tensor, labels_T: Tensor, inverse_temperature_T: Tensor, rows: Rows, outputs: Statistics
) -> None:
    labels_R, inverse_R = rows.take(labels_T).int(), rows.take(inverse_temperature_T)
    if not tiles.has_triton(logits_TV):
        statistics = reference.statistics(rows.take(logits_TV), labels_R, inverse_R)
        for output, values in zip(outputs.vectors(), statistics.vectors(), strict=True):
            output.copy_(rows.put(values, output.numel()))
        return
    from tuner.kernels.forward import partial_statistics_of
    from tuner.kernels.statistics import merge

    partials_4SR = partial_statistics_of(logits_TV, rows.index_R, labels_R, inverse_R)
    merge(partials_4SR, inverse_R, rows.index_R, outputs.vectors())


@torch.library.custom_op("tuner::log_prob_and_entropy", mutates_args=())
def forward(
    logits_TV: Tensor, labels_T: Tensor, inverse_temperature_T: Tensor, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Log-probability, entropy, maximum and log-sum of each row, float32; zero for an ignored one."""
    rows = checks.checked_rows(
        labels_T, inverse_temperature_T, ignore_index=ignore_index, vocabulary=logits_TV.shape[1]
    )
    outputs = Statistics.like(labels_T, zero=rows.index_R is not None)
    if rows.count:
        apart = logits_TV if logits_TV.stride(1) == 1 else logits_TV.contiguous()
        _write_statistics(apart, labels_T, inverse_temperature_T, rows, outputs)
    return outputs.log_probs, outputs.entropy, outputs.maximum, outputs.log_sum


@forward.register_fake
def _(
    logits_TV: Tensor, labels_T: Tensor, inverse_temperature_T: Tensor, ignore_index: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    outputs = Statistics.like(labels_T, zero=False)
    return outputs.log_probs, outputs.entropy, outputs.maximum, outputs.log_sum


@torch.library.custom_op("tuner::log_prob_and_entropy_backward", mutates_args=())
def gradient(
    d_log_probs_T: Tensor,
    d_entropy_T: Tensor,
    logits_TV: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    log_probs_T: Tensor,
    entropy_T: Tensor,
    maximum_T: Tensor,
    log_sum_T: Tensor,
    ignore_index: int,
) -> Tensor:
    """Gradient of the logits, contiguous, in their dtype; arguments as those and results of the other."""
    d_logits_TV = torch.empty_like(logits_TV, memory_format=torch.contiguous_format)
    if not d_logits_TV.numel():
        return d_logits_TV
    statistics = Statistics(maximum=maximum_T, log_sum=log_sum_T, log_probs=log_probs_T, entropy=entropy_T)
    active_T = labels_T != ignore_index
    coefficients_CT = reference.row_coefficients(
        statistics,
        inverse_temperature_T,
        d_log_probs_T.where(active_T, 0.0),
        d_entropy_T.where(active_T, 0.0),
    )
    if tiles.has_triton(logits_TV):
        from tuner.kernels.dlogits import convert

        apart = logits_TV if logits_TV.stride(1) == 1 else logits_TV.contiguous()
        convert(apart, None, labels_T.int(), coefficients_CT, 0, d_logits_TV)
        return d_logits_TV
    return d_logits_TV.copy_(reference.d_logits(logits_TV, labels_T, coefficients_CT, 0))


@gradient.register_fake
def _(
    d_log_probs_T: Tensor,
    d_entropy_T: Tensor,
    logits_TV: Tensor,
    labels_T: Tensor,
    inverse_temperature_T: Tensor,
    log_probs_T: Tensor,
    entropy_T: Tensor,
    maximum_T: Tensor,
    log_sum_T: Tensor,
    ignore_index: int,
) -> Tensor:
    return torch.empty_like(logits_TV, memory_format=torch.contiguous_format)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    logits_TV, labels_T, inverse_temperature_T, ctx.ignore_index = inputs
    ctx.save_for_backward(logits_TV, labels_T, inverse_temperature_T, *output)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    d_log_probs_T, d_entropy_T = (
        torch.zeros_like(value) if grad is None else grad
        for grad, value in zip(grads[:2], saved[3:5], strict=True)
    )
    return gradient(d_log_probs_T, d_entropy_T, *saved, ctx.ignore_index), None, None, None


forward.register_autograd(_differentiate, setup_context=_keep)


def log_prob_and_entropy(
    logits: Tensor, labels: Tensor, temperature: float | Tensor = 1.0, *, ignore_index: int = -100
) -> tuple[Tensor, Tensor]:
    r"""Log-probability of each label and entropy of each distribution, with gradients of both.

    .. math:: x = \text{logits} / \tau, \qquad \log p_l = x_l - \ln \sum_v e^{x_v}, \qquad
        \mathcal{H} = -\sum_v p_v \ln p_v

    Reads the logits once, and once more in the backward pass, which writes their gradient; in
    between it keeps them and a few numbers of each row. The same input gives the same bits.

    Args:
        logits: ``[..., V]``, bfloat16, float16 or float32, any strides. An entry of -inf has
            probability zero, as where a vocabulary is filtered or padded.
        labels: ``[...]``, int64 or int32, in ``[0, V)`` or ``ignore_index``.
        temperature: a number, or a tensor with one element or shaped like ``labels``; at least 1e-6.
            It gets no gradient.
        ignore_index: the label of rows that are left out: zero in both results, and not read.

    Returns:
        Log-probabilities and entropy, float32, shaped like ``labels``.

    Raises:
        ValueError: an argument of the wrong shape, dtype, device or value; it says which.

    Source: the formulas in :mod:`tuner.kernels.statistics` and :mod:`tuner.kernels.dlogits`.
    """
    checks.check_logits(logits)
    checks.check_labels(labels, logits, "logits")
    log_probs, entropy, *_ = forward(
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1),
        checks.inverse_temperatures(temperature, labels),
        ignore_index,
    )
    return log_probs.reshape(labels.shape), entropy.reshape(labels.shape)
