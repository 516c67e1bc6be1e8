r"""The policy loss of a token and its derivatives, in closed form.

T: rows (tokens).

With the log-ratio :math:`x = \log p - \log p_\text{old}` and :math:`k = \log p_\text{ref} - \log p`,
both held within 20 of zero, the ratio :math:`r = e^x` and the advantage :math:`A`:

.. math:: \ell = \max(-A r, -A\, \mathrm{clip}(r, 1 - \epsilon_\text{low}, 1 + \epsilon_\text{high}))
    + \beta\, \mathrm{clip}(e^k - k - 1, -10, 10) - \alpha \mathcal{H}

where the first term is at most :math:`-A c` if :math:`A < 0`.
Without old log-probabilities they are the new ones: :math:`r` is one, and its derivative too.

Sources: PPO, arXiv:1707.06347; dual clip, arXiv:1912.09729; the low-variance estimate of the KL
divergence, http://joschu.net/blog/kl-approx.html; the limits of 20 and 10 are verl's
(``verl/trainer/ppo/core_algos.py``, ``compute_policy_loss_vanilla`` and ``kl_penalty``).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

LOG_RATIO_LIMIT = 20.0
KL_LIMIT = 10.0


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Coefficients of the loss, the same for every token."""

    clip_ratio_low: float
    clip_ratio_high: float
    clip_ratio_c: float  # infinite: no dual clip
    entropy_coeff: float
    kl_loss_coef: float
    on_policy: bool = False  # the old log-probabilities are the new ones


@dataclass(frozen=True, kw_only=True)
class TokenLosses:
    """Each row's weighted loss and that loss's derivatives by the row's two statistics, float32."""

    losses_T: Tensor
    d_log_probs_T: Tensor
    d_entropy_T: Tensor


def _clipped_ratio_loss(
    objective: Objective, log_ratio_T: Tensor, advantages_T: Tensor
) -> tuple[Tensor, Tensor]:
    """The loss of the clipped ratio and its derivative by the log-probability, zero where it is clipped."""
    held_T = log_ratio_T.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    ratio_T = held_T.exp()
    clipped_T = ratio_T.clamp(1 - objective.clip_ratio_low, 1 + objective.clip_ratio_high)
    free_loss_T, clipped_loss_T = -advantages_T * ratio_T, -advantages_T * clipped_T
    losses_T = torch.maximum(free_loss_T, clipped_loss_T)
    ceiling_T = torch.where(advantages_T < 0, -advantages_T * objective.clip_ratio_c, torch.inf)
    flat_T = (clipped_loss_T > free_loss_T) | (losses_T > ceiling_T) | (log_ratio_T.abs() > LOG_RATIO_LIMIT)
    return torch.minimum(losses_T, ceiling_T), free_loss_T.where(~flat_T, 0.0)


def _kl_estimate(log_ratio_T: Tensor) -> tuple[Tensor, Tensor]:
    """From the reference's log-ratio; the estimate and its derivative by the log-probability."""
    held_T = log_ratio_T.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    excess_T = held_T.expm1()
    estimate_T = excess_T - held_T
    flat_T = (log_ratio_T.abs() > LOG_RATIO_LIMIT) | (estimate_T > KL_LIMIT)
    return estimate_T.clamp(max=KL_LIMIT), (-excess_T).where(~flat_T, 0.0)


def token_losses(
    objective: Objective, tokens_4T: Tensor, log_probs_T: Tensor, entropy_T: Tensor
) -> TokenLosses:
    """The weighted loss of each token; a token of weight zero has none, whatever its other numbers.

    Args:
        objective: the loss's coefficients.
        tokens_4T: float32: the old log-probability, which is not read ``on_policy``, the advantage, the
            token's weight and the reference's log-probability, which is read only if ``kl_loss_coef`` is
            not zero.
        log_probs_T: float32.
        entropy_T: float32.
    """
    old_T, advantages_T, weights_T, reference_T = tokens_4T.unbind()
    log_ratio_T = torch.zeros_like(log_probs_T) if objective.on_policy else log_probs_T - old_T
    losses_T, d_log_probs_T = _clipped_ratio_loss(objective, log_ratio_T, advantages_T)
    if objective.kl_loss_coef:
        estimate_T, d_estimate_T = _kl_estimate(reference_T - log_probs_T)
        losses_T = losses_T + objective.kl_loss_coef * estimate_T
        d_log_probs_T = d_log_probs_T + objective.kl_loss_coef * d_estimate_T
    losses_T = losses_T - objective.entropy_coeff * entropy_T
    counted_T = weights_T != 0
    return TokenLosses(
        losses_T=(weights_T * losses_T).where(counted_T, 0.0),
        d_log_probs_T=(weights_T * d_log_probs_T).where(counted_T, 0.0),
        d_entropy_T=-objective.entropy_coeff * weights_T,
    )
