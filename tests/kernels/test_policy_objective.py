"""The closed form of a token's loss against autograd in float64, and how losses are weighted."""

import math

import pytest
import torch
from torch import Tensor

from tests.kernels.exact import random_case
from tests.kernels.exact_policy import PolicyCase, exact_token_losses
from tuner.kernels.policy_objective import Objective, token_losses

COEFFICIENTS = [
    {"clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0},
    {"clip_ratio_low": 0.2, "clip_ratio_high": 0.28, "clip_ratio_c": None, "entropy_coeff": 0.01},
    {"clip_ratio_low": 0.0, "clip_ratio_high": 0.0, "clip_ratio_c": 1.5, "kl_loss_coef": 0.5},
    {
        "clip_ratio_low": 1.0,
        "clip_ratio_high": 10.0,
        "clip_ratio_c": 20.0,
        "entropy_coeff": -1.0,
        "kl_loss_coef": 2.0,
    },
]


def grid() -> tuple[Tensor, PolicyCase]:
    """Log-probabilities, and a case of every log-ratio with every advantage and reference."""
    # None is where a clip begins: there the derivative jumps and float32 may be on the other side.
    ratios = torch.tensor(
        [-30.0, -19.9, -5, -1, -0.3, -0.21, -0.01, 0.01, 0.17, 0.19, 0.5, 1, 1.5, 2.9, 19, 25]
    )
    references = torch.tensor([-25.0, -15, -9, -1, -0.001, 0, 0.001, 1, 2.5, 2.7, 22])
    advantages = torch.tensor([-3.0, -0.1, 0, 0.1, 2])
    ratio, advantage, reference = torch.cartesian_prod(ratios, advantages, references).unbind(1)
    log_probs = torch.linspace(-12, 0, ratio.numel())
    return log_probs, PolicyCase(
        head=random_case(0, 1, 1, torch.float32),
        old_log_probs=log_probs - ratio,
        advantages=advantage,
        token_weights=torch.linspace(0.1, 2, ratio.numel()),
        ref_log_probs=log_probs + reference,
    )


@pytest.mark.parametrize("coefficients", COEFFICIENTS, ids=str)
def test_losses_and_derivatives(coefficients: dict[str, float | None]) -> None:
    log_probs, case = grid()
    case.coefficients.update(coefficients)
    entropy = torch.linspace(0, 11, log_probs.numel())
    exact_inputs = [value.double().requires_grad_() for value in (log_probs, entropy)]
    exact = exact_token_losses(exact_inputs[0], exact_inputs[1], case)
    derivatives = torch.autograd.grad(exact.sum(), exact_inputs)
    dual = coefficients["clip_ratio_c"]
    plain = {"entropy_coeff": 0.0, "kl_loss_coef": 0.0, **coefficients}
    objective = Objective(**{**plain, "clip_ratio_c": math.inf if dual is None else dual})
    tokens = torch.stack((case.old_log_probs, case.advantages, case.token_weights, case.ref_log_probs))
    losses = token_losses(objective, tokens, log_probs, entropy)
    # The log-ratios are differences of numbers near 30, known to 2e-6, and so are their exponentials.
    for value, right in zip(vars(losses).values(), (exact.detach(), *derivatives), strict=True):
        torch.testing.assert_close(value.double(), right, rtol=1e-5, atol=1e-5)
        assert ((value == 0) == (right == 0)).all()


def test_what_a_token_without_weight_carries_does_not_matter() -> None:
    objective = Objective(
        clip_ratio_low=0.2, clip_ratio_high=0.2, clip_ratio_c=3.0, entropy_coeff=0.1, kl_loss_coef=0.1
    )
    tokens = torch.full((4, 2), torch.nan)
    tokens[2] = torch.tensor([0.0, 1.0])
    losses = token_losses(objective, tokens, torch.zeros(2), torch.zeros(2))
    assert losses.losses_T[0] == losses.d_log_probs_T[0] == losses.d_entropy_T[0] == 0
    # That of one with weight is not hidden.
    assert losses.losses_T[1].isnan() and losses.d_log_probs_T[1].isnan()
