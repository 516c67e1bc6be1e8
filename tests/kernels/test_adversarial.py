"""Logits that break kernels: far from zero, far apart, peaked. The limits are absolute.

float32 keeps a logit of 300 to 1.5e-5 only, and the log-probability cannot be better than that; the entropy
can, since it depends on differences.
"""

import pytest
import torch
from torch import Tensor

from tests.kernels.exact import DEVICE, error, exact_outputs
from tuner.kernels import Mode, linear_cross_entropy, log_prob_and_entropy, tiles
from tuner.kernels.tiles import Path

pytestmark = [pytest.mark.usefixtures("poisoned"), pytest.mark.triton]

TOKENS, HIDDEN, VOCABULARY = 33, 16, 203
# Name: largest error of log-probability and entropy, of recomputed float32 logits.
LIMITS = {
    "near -150": (1e-4, 1e-5),
    "near +300": (2e-4, 2e-5),
    "standard deviation 100": (3e-4, 3e-5),
    "peaked near 300": (2e-4, 2e-5),
    "one-hot": (1e-6, 1e-6),
    "all equal": (1e-6, 1e-6),
    "all zero": (1e-6, 1e-6),
}


def inputs(name: str) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states whose last component is one and a weight whose last column is the logits' offset."""
    generator = torch.Generator(DEVICE).manual_seed(1)
    hidden = torch.randn(TOKENS, HIDDEN, device=DEVICE, generator=generator)
    weight = torch.randn(VOCABULARY, HIDDEN, device=DEVICE, generator=generator) * HIDDEN**-0.5
    labels = torch.randint(VOCABULARY, (TOKENS,), device=DEVICE, generator=generator)
    hidden[:, -1] = 1
    weight[:, -1] = {"near -150": -150, "near +300": 300, "peaked near 300": 300}.get(name, 0)
    if name == "standard deviation 100":
        hidden[:, :-1] *= 100
    elif name in ("peaked near 300", "one-hot"):
        # The label's logit is above all others, by 10 or by 1000.
        hidden[:, :-1] = 0
        weight[:, -2] = 0
        weight[labels[0], -2] = 1
        hidden[:, -2] = 1000 if name == "one-hot" else 10
        labels[:] = labels[0]
    elif name.startswith("all"):
        hidden[:, :-1] = 0
        weight[:, -1] = 7 if name == "all equal" else 0
    return hidden, weight, labels


@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.parametrize("path", [Path.PORTABLE, Path.REFERENCE], ids=str)
@pytest.mark.parametrize("name", LIMITS)
def test_linear_cross_entropy(name: str, path: Path, mode: Mode) -> None:
    hidden, weight, labels = inputs(name)
    logits = hidden.double() @ weight.double().T
    exact = exact_outputs(logits.requires_grad_(), labels, 1.0)
    exact_gradient = torch.autograd.grad(exact[0].sum() + exact[1].sum(), logits)[0] @ weight.double()
    hidden.requires_grad_()
    with tiles.only(path):
        log_probs, entropy = linear_cross_entropy(hidden, weight, labels, mode=mode)
        (log_probs.sum() + entropy.sum()).backward()
    for found, value, limit in zip((log_probs, entropy), exact, LIMITS[name], strict=True):
        assert float((found - value).detach().abs().max()) <= limit
    assert entropy.detach().min() >= 0
    assert hidden.grad is not None and hidden.grad.isfinite().all()
    # Of gradients of size one; where they cancel there is nothing to compare with.
    assert (
        error(hidden.grad / (1 + exact_gradient.norm()), exact_gradient / (1 + exact_gradient.norm())) <= 1e-3
    )


@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("path", [Path.PORTABLE, Path.REFERENCE], ids=str)
def test_any_temperature_is_finite(path: Path, temperature: float) -> None:
    hidden, weight, labels = inputs("standard deviation 100")
    hidden.requires_grad_()
    with tiles.only(path):
        log_probs, entropy = linear_cross_entropy(hidden, weight, labels, temperature)
        (log_probs.sum() + entropy.sum()).backward()
    exact = exact_outputs(hidden.detach().double() @ weight.double().T, labels, temperature)
    assert error(log_probs.detach(), exact[0]) <= 1e-5
    assert hidden.grad is not None and hidden.grad.isfinite().all()
    assert float((entropy.detach() - exact[1]).abs().max()) <= 1e-3


@pytest.mark.parametrize("path", [Path.PORTABLE, Path.REFERENCE], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_filtered_entries_have_probability_zero(path: Path, dtype: torch.dtype) -> None:
    logits = torch.randn(9, 5000, device=DEVICE).to(dtype)
    logits[:, 1::2] = -torch.inf
    logits[3, 2:] = -torch.inf
    labels = torch.full((9,), 4, device=DEVICE)
    labels[3], labels[5] = 0, 7
    leaf = logits.clone().requires_grad_()
    with tiles.only(path):
        log_probs, entropy = log_prob_and_entropy(leaf, labels)
        weights = torch.tensor([0.0 if label == 7 else 1.0 for label in labels.tolist()], device=DEVICE)
        torch.autograd.backward((log_probs, entropy), (weights, torch.ones(9, device=DEVICE)))
    exact = exact_outputs(logits.double(), labels, 1.0)
    assert log_probs[5] == -torch.inf and log_probs[3] == 0 and entropy[3] == 0
    assert error(log_probs.detach().nan_to_num(neginf=0), exact[0].nan_to_num(neginf=0)) <= 1e-6
    assert error(entropy.detach(), torch.special.entr(logits.double().softmax(1)).sum(1)) <= 1e-6
    assert leaf.grad is not None and leaf.grad.isfinite().all() and not leaf.grad[:, 1::2].any()
