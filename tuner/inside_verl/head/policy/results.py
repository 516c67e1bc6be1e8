"""Log-probabilities and entropy whose gradients were made along with them.

T: rows. V: vocabulary entries. H: hidden size.

The forward pass makes the gradients of the loss that was planned. verl makes its own loss of the results
afterwards; where the gradient of that arrives and is a multiple of the planned one, the gradients that are
there are scaled and handed on. Where it is not, they are dropped, and made of what arrived.
"""

from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from tuner.inside_verl.head.policy.loss_handoff import WAY
from tuner.inside_verl.head.policy.plan import PlannedLoss
from tuner.kernels import linear_cross_entropy, linear_policy_loss
from tuner.kernels.head import in_one_dtype
from tuner.kernels.policy_objective import token_losses
from tuner.language import _

# Of the largest term that a derivative is a sum of. Both sides round some ten products and an exponential to
# float32, 6e-8 each, and a clipped ratio is a few; from 1e-6 to 1e-4 would do.
TOLERANCE = 1e-5
# Of the largest derivative that arrived, where all of them are small beside those terms: a factor taken from
# what is left of a difference says little. From 1e-3 to 1e-1 would do.
SHARE = 1e-2


def _factor(planned: Tensor, arrived: Tensor, largest_term: Tensor) -> Tensor | None:
    """By what the planned derivatives are to be multiplied; None where no factor makes them what arrived."""
    if not planned.numel():
        return planned.new_ones(())
    place = planned.abs().argmax()
    largest = planned.flatten()[place]
    factor = torch.where(largest == 0, 1.0, arrived.flatten()[place] / largest)
    apart = (arrived - factor * planned).abs().max()
    allowed = torch.minimum(TOLERANCE * factor.abs() * largest_term, SHARE * arrived.abs().max())
    return factor if bool(apart <= allowed) else None


class _Prepared(torch.autograd.Function):
    """Hands out log-probabilities and entropy, and in the backward pass the gradients made with them."""

    @staticmethod
    def forward(
        ctx: Any,
        loss: Tensor,
        hidden: Tensor,
        weight: Tensor,
        results: tuple[Tensor, Tensor],
        planned: Tensor,
        largest_term: Tensor,
        labels: Tensor,
        temperature: float | Tensor,
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, weight, labels, planned, largest_term)
        ctx.temperature = temperature
        return results

    @staticmethod
    def backward(ctx: Any, *arrived: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, labels, planned, largest_term = ctx.saved_tensors
        rest = (None,) * 5
        factor = _factor(planned, torch.stack(arrived).flatten(1), largest_term)
        if factor is not None:
            return factor, None, None, *rest
        WAY.close(_("the gradient of verl's loss is not the one that its settings say"))
        with torch.enable_grad():
            inputs = [
                value.detach().requires_grad_(wanted)
                for value, wanted in zip((hidden, weight), ctx.needs_input_grad[1:3], strict=True)
            ]
            results = linear_cross_entropy(inputs[0], inputs[1], labels, ctx.temperature)
            wanted = [value for value in inputs if value.requires_grad]
            gradients = iter(torch.autograd.grad(results, wanted, arrived))
        return None, *(next(gradients) if value.requires_grad else None for value in inputs), *rest


def _fits(plan: PlannedLoss, hidden: Tensor, labels: Tensor) -> bool:
    if hidden.dtype is torch.float16:  # what underflows is lost before a factor on the loss could help
        WAY.say_not_covered("dtype", "float16")
        return False
    if plan.tokens.shape[1] != labels.numel():
        WAY.close(_("the head has other rows than the loss"))
        return False
    return True


def planned_results(
    plan: PlannedLoss, hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropy, float32, shaped like the labels, with gradients.

    Args:
        plan: the loss that verl is going to make of them.
        hidden: ``[..., H]``.
        weight: ``[V, H]``.
        labels: ``[...]``, T of them.
        temperature: divides the logits.
    """
    hidden, weight = in_one_dtype(hidden, weight)
    if not _fits(plan, hidden, labels):
        return linear_cross_entropy(hidden, weight, labels, temperature)
    coefficients = asdict(plan.objective)
    on_policy = coefficients.pop("on_policy")
    old, advantages, weights, reference = (row.view_as(labels) for row in plan.tokens)
    loss, *results = linear_policy_loss(
        hidden,
        weight,
        labels,
        None if on_policy else old,
        advantages,
        weights,
        temperature,
        ref_log_probs=reference,
        **coefficients,
    )
    losses = token_losses(plan.objective, plan.tokens, *(part.flatten() for part in results))
    planned = torch.stack((losses.d_log_probs_T, losses.d_entropy_T))
    WAY.say_once(_("the gradients of the policy loss are made in the forward pass"))
    own = tuple(part.clone() for part in results)  # no views of what the operator returned
    prepared: tuple[Tensor, Tensor] = _Prepared.apply(
        loss, hidden, weight, own, planned, _largest_term(plan), labels, temperature
    )
    return prepared


def _largest_term(plan: PlannedLoss) -> Tensor:
    """The largest of what the derivatives are sums of, at a ratio of one."""
    _old, advantages, weights, _reference = plan.tokens
    objective = plan.objective
    terms = advantages.abs() + abs(objective.kl_loss_coef) + abs(objective.entropy_coeff)
    largest: Tensor = (weights * terms).abs().max()
    return largest
