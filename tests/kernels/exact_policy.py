"""What the policy loss should be: verl's formulas in float64, differentiated by autograd.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tests.kernels.exact import DEVICE, IGNORED, Case, exact_outputs, random_case

# Log-ratios on every side of the borders at 0.8, 1.2 and 3, and at least 0.1 from each: rounded logits
# leave them on their side. Those of the reference reach both limits of the estimate.
LOG_RATIOS = (-0.6, -0.1, 0.05, 0.45, 1.5)
REFERENCE_LOG_RATIOS = (-14.0, -0.5, 0.3, 3.0)
COEFFICIENTS = {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0}
BONUSES = {**COEFFICIENTS, "entropy_coeff": 0.3, "kl_loss_coef": 0.2}


@dataclass(frozen=True, kw_only=True)
class PolicyCase:
    """Inputs of the policy loss; the head's labels and temperature, not its upstream gradients."""

    head: Case
    old_log_probs: Tensor
    advantages: Tensor
    token_weights: Tensor
    ref_log_probs: Tensor
    coefficients: dict[str, float | None] = field(default_factory=lambda: dict(COEFFICIENTS))


def random_policy_case(
    tokens: int, hidden: int, vocabulary: int, dtype: torch.dtype, **coefficients: float | None
) -> PolicyCase:
    """Tokens free and clipped on both sides, a fifth without advantage, a seventh without weight."""
    head = random_case(tokens, hidden, vocabulary, dtype)
    logits = head.hidden.detach().double() @ head.weight.detach().double().T
    log_probs = exact_outputs(logits, head.labels, head.temperature)[0]
    generator = torch.Generator(DEVICE).manual_seed(tokens)

    def one_of(values: tuple[float, ...]) -> Tensor:
        chosen = torch.randint(len(values), (tokens,), device=DEVICE, generator=generator)
        return torch.tensor(values, device=DEVICE, dtype=torch.float64)[chosen]

    advantages = torch.randn(tokens, device=DEVICE, generator=generator)
    advantages[4::5] = 0
    weights = torch.rand(tokens, device=DEVICE, generator=generator) / max(tokens, 1)
    weights[6::7] = 0
    return PolicyCase(
        head=head,
        old_log_probs=(log_probs - one_of(LOG_RATIOS)).float(),
        advantages=advantages,
        token_weights=weights,
        ref_log_probs=(log_probs + one_of(REFERENCE_LOG_RATIOS)).float(),
        coefficients={**COEFFICIENTS, **coefficients},
    )


def exact_token_losses(log_probs: Tensor, entropy: Tensor, case: PolicyCase) -> Tensor:
    """Weighted, of float64 statistics."""
    chosen = {"entropy_coeff": 0.0, "kl_loss_coef": 0.0, **case.coefficients}
    low, high, dual = chosen["clip_ratio_low"], chosen["clip_ratio_high"], chosen["clip_ratio_c"]
    old, reference = case.old_log_probs.double(), case.ref_log_probs.double()
    gain = -case.advantages.double()
    ratio = torch.exp(torch.clamp(log_probs - old, min=-20.0, max=20.0))
    loss = torch.max(gain * ratio, gain * torch.clamp(ratio, 1 - low, 1 + high))
    if dual is not None:
        loss = torch.where(gain > 0, torch.min(loss, gain * dual), loss)
    apart = torch.clamp(reference - log_probs, min=-20.0, max=20.0)
    divergence = torch.clamp(torch.exp(apart) - apart - 1, min=-10.0, max=10.0)
    loss = loss + chosen["kl_loss_coef"] * divergence - chosen["entropy_coeff"] * entropy
    return case.token_weights.double() * loss


@dataclass(frozen=True, kw_only=True)
class ExactPolicy:
    """In float64, of all rows."""

    loss: Tensor
    size: Tensor  # sum of what its terms are before they cancel
    log_probs: Tensor
    entropy: Tensor
    d_hidden: Tensor
    d_weight: Tensor
    without_gradient: Tensor  # rows


def exact_policy(logits: Tensor, case: PolicyCase) -> ExactPolicy:
    """From the logits ``[T, V]``, rounded as they were."""
    leaf = logits.detach().double().requires_grad_()
    log_probs, entropy = exact_outputs(leaf, case.head.labels, case.head.temperature)
    losses = exact_token_losses(log_probs, entropy, case).where(case.head.labels != IGNORED, 0.0)
    (d_logits,) = torch.autograd.grad(losses.sum(), leaf)
    return ExactPolicy(
        loss=losses.detach().sum(),
        size=losses.detach().abs().sum(),
        log_probs=log_probs.detach(),
        entropy=entropy.detach(),
        d_hidden=d_logits @ case.head.weight.detach().double(),
        d_weight=d_logits.T @ case.head.hidden.detach().double(),
        without_gradient=~d_logits.any(1),
    )
