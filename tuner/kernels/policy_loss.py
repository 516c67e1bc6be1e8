"""The output head with the policy loss in it: its gradients while the logits still exist.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from math import inf
from typing import NamedTuple

import torch
from torch import Tensor

from tuner.kernels import checks, policy_ops
from tuner.kernels.head import in_one_dtype


class PolicyLoss(NamedTuple):
    """What :func:`linear_policy_loss` returns."""

    loss: Tensor  # float32 scalar, with gradients
    log_probs: Tensor  # float32, shaped like the labels, without; as the next
    entropy: Tensor


def _check_coefficients(low: float, high: float, dual: float | None, entropy: float, kl: float) -> None:
    if not 0 <= low <= 1:
        raise ValueError(f"clip_ratio_low must be in [0, 1], not {low!r}")
    if not 0 <= high < inf:  # comparisons alone: torch.compile traces them for numbers that it keeps open
        raise ValueError(f"clip_ratio_high must be a finite number of at least 0, not {high!r}")
    if dual is not None and not dual > 1:
        raise ValueError(f"clip_ratio_c must be above 1, or None for no dual clip, not {dual!r}")
    for name, value in (("entropy_coeff", entropy), ("kl_loss_coef", kl)):
        if not -inf < value < inf:
            raise ValueError(f"{name} must be a finite number, not {value!r}")


def _stacked(labels: Tensor, values: dict[str, Tensor | None]) -> Tensor:
    """The tensors as rows of one float32 matrix, zero for one that is None."""
    rows = []
    for name, value in values.items():
        if value is None:
            rows.append(torch.zeros(labels.numel(), device=labels.device))
            continue
        if value.shape != labels.shape:
            raise ValueError(f"{name} must be {tuple(labels.shape)} as labels, not {tuple(value.shape)}")
        if value.dtype not in (*checks.DTYPES, torch.float64):
            raise ValueError(f"{name} must be of a floating-point dtype, not {value.dtype}")
        if value.device != labels.device:
            raise ValueError(f"{name} must be on {labels.device} as labels, not on {value.device}")
        if value.requires_grad:
            raise ValueError(f"{name} must not require a gradient: none is computed for it")
        rows.append(value.float().reshape(-1))
    return torch.stack(rows)


def linear_policy_loss(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    old_log_probs: Tensor | None,
    advantages: Tensor,
    token_weights: Tensor,
    temperature: float | Tensor = 1.0,
    *,
    clip_ratio_low: float = 0.2,
    clip_ratio_high: float = 0.2,
    clip_ratio_c: float | None = 3.0,
    entropy_coeff: float = 0.0,
    ref_log_probs: Tensor | None = None,
    kl_loss_coef: float = 0.0,
    ignore_index: int = -100,
    chunk_tokens: int = 0,
) -> PolicyLoss:
    r"""The loss of PPO and GRPO from hidden states, in three matrix products and with few logits at a time.

    .. math:: \sum_t w_t \left( \ell_t + \beta\, \widehat{\mathrm{KL}}_t - \alpha \mathcal{H}_t \right)

    The clipped loss :math:`\ell` and the estimate of the KL divergence are those of
    :mod:`tuner.kernels.policy_objective`: verl's loss mode ``vanilla``, its ``low_var_kl`` and its
    entropy bonus.

    The gradients are computed together with the loss, a chunk of rows at a time, and the backward pass
    only multiplies them by the gradient of the loss, in place, if that is not one. So it runs once:
    ``retain_graph`` does not allow for a second time. A gradient that underflows in float16 is lost before a
    factor on the loss could help: put the factor into ``token_weights``.

    Rows with an ignored label cost nothing. Rows whose loss does not depend on the logits take no part
    in the products of the gradients: clipped tokens, and tokens whose advantage or weight is zero, unless
    there is an entropy bonus or a KL term. The same input gives the same bits.

    ``token_weights`` is how the losses of tokens become one number. With the mask of the response
    ``m`` (sequences x tokens) and ``n`` sequences, all in float32, verl's ``loss_agg_mode`` is

    ========================  ====================================
    ``token-mean``            ``m / m.sum()``
    ``token-sum``             ``m``
    ``seq-mean-token-sum``    ``m / n``
    ``...-sum-norm``          ``m / n / loss_scale_factor``
    ``seq-mean-token-mean``   ``m / (m.sum(-1, keepdim=True) + 1e-8) / n``
    ========================  ====================================

    times the number of data-parallel ranks, where ``m.sum()`` and ``n`` count the tokens and the
    sequences with a token, of all ranks. Weights of importance sampling (``rollout_is_weights``) go into
    the ``advantages`` as a factor: they apply to :math:`\ell` alone.

    Args:
        hidden: ``[..., H]``, bfloat16, float16 or float32, any strides.
        weight: ``[V, H]``, the dtype of ``hidden``; under autocast both are cast to its dtype.
        labels: ``[...]``, int64 or int32, in ``[0, V)`` or ``ignore_index``.
        old_log_probs: ``[...]``, of any floating-point dtype, as the next two and ``ref_log_probs``: the
            log-probabilities that the ratio is taken to. None of the four gets a gradient. ``None`` takes
            it to the log-probabilities computed here, without a gradient: one step on-policy.
        advantages: ``[...]``.
        token_weights: ``[...]``; a token of weight zero has no loss, whatever its other numbers.
        temperature: a number, or a tensor with one element or shaped like ``labels``; at least 1e-6.
            It gets no gradient.
        clip_ratio_low: :math:`\epsilon_\text{low}`, in [0, 1].
        clip_ratio_high: :math:`\epsilon_\text{high}`, at least 0.
        clip_ratio_c: the dual clip's :math:`c`, above 1; None for no dual clip.
        entropy_coeff: :math:`\alpha`.
        ref_log_probs: ``[...]``, of the reference policy; read only if ``kl_loss_coef`` is not zero.
        kl_loss_coef: :math:`\beta`.
        ignore_index: the label of rows that are left out: zero in every result.
        chunk_tokens: rows whose logits exist at a time, in the dtype of ``hidden``; 0 chooses it.

    Returns:
        Loss, log-probabilities and entropy. Where a gradient is computed they are those of the logits
        rounded to the dtype of ``hidden``, as with ``mode="saved_logits"``.

    Raises:
        ValueError: an argument of the wrong shape, dtype, device or value; it says which.
        RuntimeError: from torch, where the backward pass runs a second time.
    """
    if chunk_tokens < 0:
        raise ValueError(f"chunk_tokens must be at least 0, not {chunk_tokens}")
    if kl_loss_coef != 0 and ref_log_probs is None:
        raise ValueError("ref_log_probs must be given if kl_loss_coef is not zero")
    _check_coefficients(clip_ratio_low, clip_ratio_high, clip_ratio_c, entropy_coeff, kl_loss_coef)
    hidden, weight = in_one_dtype(hidden, weight)
    checks.check_matrices(hidden, weight)
    checks.check_labels(labels, hidden, "hidden")
    values = {"old_log_probs": old_log_probs, "advantages": advantages, "token_weights": token_weights}
    trained = torch.is_grad_enabled()
    loss, log_probs, entropy, *_ = policy_ops.forward(
        hidden.reshape(-1, hidden.shape[-1]),
        weight,
        labels.reshape(-1),
        checks.inverse_temperatures(temperature, labels),
        _stacked(labels, {**values, "ref_log_probs": ref_log_probs}),
        ignore_index,
        clip_ratio_low,
        clip_ratio_high,
        inf if clip_ratio_c is None else clip_ratio_c,
        entropy_coeff,
        kl_loss_coef,
        old_log_probs is None,
        chunk_tokens,
        trained and hidden.requires_grad,
        trained and weight.requires_grad,
    )
    return PolicyLoss(
        loss=loss, log_probs=log_probs.reshape(labels.shape), entropy=entropy.reshape(labels.shape)
    )
