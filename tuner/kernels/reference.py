"""Plain torch in float32: what the kernels compute, and what runs where there are none.

T: rows (tokens). V: vocabulary entries. H: hidden size. N: entries of a slice. C: coefficients.
S: splits of the vocabulary.
"""

from dataclasses import dataclass
from math import log

import torch
from torch import Tensor

LOG2E = 1 / log(2)
LN2 = log(2)


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """What the backward pass needs of each row, and the two results; float32 vectors."""

    maximum: Tensor  # of the logits
    log_sum: Tensor  # ln of the sum of exp((x - maximum) / temperature)
    log_probs: Tensor
    entropy: Tensor

    @classmethod
    def like(cls, rows: Tensor, *, zero: bool) -> "Statistics":
        """Vectors for as many rows, zero or not yet written."""
        new = torch.zeros if zero else torch.empty
        maximum, log_sum, log_probs, entropy = (
            new(rows.shape[0], device=rows.device, dtype=torch.float32) for _ in range(4)
        )
        return cls(maximum=maximum, log_sum=log_sum, log_probs=log_probs, entropy=entropy)

    def vectors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The four vectors in the order in which the kernels write them."""
        return self.maximum, self.log_sum, self.log_probs, self.entropy


def partial_statistics(logits_TV: Tensor, labels_T: Tensor, inverse_temperature_T: Tensor) -> Tensor:
    """Maximum, sum, weighted sum and label's logit of each row, ``[4, T]``; to base e, not 2.

    In the dtype of the logits if that is float64, else in float32. A label outside ``[0, V)`` has a
    logit of zero.
    """
    logits_TV = logits_TV if logits_TV.dtype is torch.float64 else logits_TV.float()
    label_T = labels_T.long()[:, None]
    inside = (label_T >= 0) & (label_T < logits_TV.shape[1])
    label_logit = logits_TV.gather(1, torch.where(inside, label_T, 0)).where(inside, 0.0)
    maximum = logits_TV.amax(1, keepdim=True)
    shifted_TV = (logits_TV - maximum) * inverse_temperature_T[:, None].to(logits_TV.dtype)
    power_TV = shifted_TV.exp()
    # 0 * -inf would be NaN; an entry of probability zero adds nothing.
    weighted = (power_TV * shifted_TV).where(power_TV > 0, 0.0).sum(1)
    return torch.stack((maximum.squeeze(1), power_TV.sum(1), weighted, label_logit.squeeze(1)))


def merge(partials_4ST: Tensor, inverse_temperature_T: Tensor) -> Statistics:
    """Statistics of each row, merged from those of splits of the vocabulary."""
    part_maximum, part_total, part_weighted, label_logit = partials_4ST.unbind()
    inverse = inverse_temperature_T.to(partials_4ST.dtype)
    maximum = part_maximum.amax(0)
    shift = (part_maximum - maximum) * inverse
    decay = shift.exp()
    total = (decay * part_total).sum(0)
    weighted = (decay * (part_weighted + shift * part_total)).sum(0)
    log_sum = total.log()
    return Statistics(
        maximum=maximum,
        log_sum=log_sum,
        log_probs=(label_logit.sum(0) - maximum) * inverse - log_sum,
        entropy=log_sum - weighted / total,
    )


def statistics(logits_TV: Tensor, labels_T: Tensor, inverse_temperature_T: Tensor) -> Statistics:
    """Statistics of each row of logits that exist."""
    partials_4T = partial_statistics(logits_TV, labels_T, inverse_temperature_T)
    return merge(partials_4T[:, None], inverse_temperature_T)


def row_coefficients(
    row_statistics: Statistics, inverse_temperature_T: Tensor, d_log_probs_T: Tensor, d_entropy_T: Tensor
) -> Tensor:
    r"""The six numbers of each row from which :func:`d_logits` follows, ``[6, T]`` in float32.

    Maximum; :math:`c`; :math:`\log_2 s`; :math:`A`; :math:`B`; :math:`G` of
    :mod:`tuner.kernels.dlogits`.
    """
    at_label = d_log_probs_T * inverse_temperature_T
    of_entropy = d_entropy_T * inverse_temperature_T
    return torch.stack(
        (
            row_statistics.maximum,
            inverse_temperature_T * LOG2E,
            row_statistics.log_sum * LOG2E,
            at_label + of_entropy * row_statistics.entropy,
            of_entropy * LN2,
            at_label,
        )
    )


def d_logits(logits_TN: Tensor, labels_T: Tensor, coefficients_CT: Tensor, start: int) -> Tensor:
    """Gradient of the logits of entries ``[start, start + N)``; zero for a row without one."""
    maximum, scale, log_sum, constant, slope, at_label = coefficients_CT[:, :, None].unbind()
    z_TN = ((logits_TN.float() - maximum) * scale - log_sum).clamp(min=-1.0e30)
    gradient_TN = -z_TN.exp2() * (constant + slope * z_TN)
    entries = torch.arange(start, start + logits_TN.shape[1], device=labels_T.device)
    gradient_TN = gradient_TN + at_label.where(entries == labels_T[:, None], 0.0)
    used = (constant != 0) | (slope != 0) | (at_label != 0)
    return gradient_TN.where(used, 0.0)
