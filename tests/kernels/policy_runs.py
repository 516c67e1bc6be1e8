"""Run the policy loss on a case."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.exact import DEVICE
from tests.kernels.exact_policy import PolicyCase
from tuner.kernels import PolicyLoss, linear_policy_loss
from tuner.kernels.tiles import Path

PATHS = [
    pytest.param(Path.PORTABLE, id="portable", marks=pytest.mark.triton),
    pytest.param(Path.HOPPER, id="hopper", marks=pytest.mark.gpu),
    pytest.param(Path.REFERENCE, id="reference"),
]


def loss_of(case: PolicyCase, **changes: Any) -> PolicyLoss:
    """With gradients of hidden states and weight."""
    arguments = {
        "hidden": case.head.hidden,
        "weight": case.head.weight,
        "labels": case.head.labels,
        "old_log_probs": case.old_log_probs,
        "advantages": case.advantages,
        "token_weights": case.token_weights,
        "temperature": case.head.temperature,
        "ref_log_probs": case.ref_log_probs,
        **case.coefficients,
    }
    return linear_policy_loss(**{**arguments, **changes})


def run(case: PolicyCase, upstream: float = 1.0, **changes: Any) -> list[Tensor]:
    """Loss, log-probabilities, entropy and both gradients."""
    result = loss_of(case, **changes)
    d_loss = torch.tensor(upstream, device=DEVICE)
    gradients = torch.autograd.grad(result.loss, (case.head.hidden, case.head.weight), d_loss)
    return [result.loss.detach(), result.log_probs, result.entropy, *gradients]


def assert_same(values: list[Tensor], expected: list[Tensor]) -> None:
    """Bit for bit."""
    assert all(torch.equal(left, right) for left, right in zip(values, expected, strict=True))
