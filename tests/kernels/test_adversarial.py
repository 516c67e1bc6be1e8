"""Logits that break kernels. The limits are absolute."""

from collections.abc import Mapping

import pytest
import torch

from tests.kernels.exact import DEVICE, error, exact_outputs
from tuner.kernels import Mode, linear_cross_entropy, log_prob_and_entropy, tiles
from tuner.kernels.benchmark.adversarial import (
    CASES,
    OFFSET,
    adversarial_problem,
    error_limits,
    product_errors,
)
from tuner.kernels.benchmark.exact import Results, exact_results, rounded_results
from tuner.kernels.benchmark.heads import EXACT_LIMITS, own_head
from tuner.kernels.benchmark.problem import ProblemShape
from tuner.kernels.tiles import Path

pytestmark = [pytest.mark.usefixtures("poisoned"), pytest.mark.triton]

SMALL = ProblemShape(tokens=33, hidden=16, vocabulary=203)
_LEAST_NORM = 1e-30  # of a gradient that is exactly zero: nothing but zero is right then


def relative_error(results: Results, exact: Results) -> float:
    """The error of the hidden states' gradient, relative to its norm."""
    value, truth = (results.d_hidden[:, OFFSET + 1 :].double() for results in (results, exact))
    return float((value - truth).norm() / truth.norm().clamp(min=_LEAST_NORM))


def wrong(
    results: Results, exact: Results, limits: Mapping[str, float], d_hidden: float
) -> dict[str, float | str]:
    """What is off, by how much; limits are absolute, that of the hidden states' gradient is relative."""
    errors = results.worst(exact) | {"d_hidden": relative_error(results, exact)}
    off: dict[str, float | str] = {
        name: error
        for name, error in errors.items()
        if not error <= (limits | {"d_hidden": d_hidden})[name]  # type: ignore[operator]
    }
    if not all(bool(value.isfinite().all()) for value in results.present().values()):
        off["not finite"] = "yes"
    if results.entropy is None or float(results.entropy.min()) < 0:
        off["entropy below zero"] = "yes"
    return off


@pytest.mark.sampled(8)
@pytest.mark.parametrize("mode", Mode, ids=str)
@pytest.mark.parametrize("path", [Path.PORTABLE, Path.REFERENCE], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_linear_cross_entropy(case: str, path: Path, mode: Mode) -> None:
    problem = adversarial_problem(case, SMALL, device=DEVICE, dtype=torch.float32)
    exact = exact_results(problem)
    limits = error_limits(product_errors(problem, exact), SMALL.vocabulary)
    assert wrong(own_head(mode, path).both(problem), exact, limits, d_hidden=1e-3) == {}


@pytest.mark.gpu
@pytest.mark.parametrize("vocabulary", [151936, 129920])
@pytest.mark.parametrize("path", [None, Path.PORTABLE], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_recomputed_at_full_size(case: str, path: Path | None, vocabulary: int) -> None:
    problem = adversarial_problem(case, ProblemShape(tokens=1024, hidden=896, vocabulary=vocabulary))
    exact = exact_results(problem)
    limits = error_limits(product_errors(problem, exact), vocabulary)
    results = own_head(Mode.RECOMPUTE, path).both(problem)
    assert wrong(results, exact, limits, d_hidden=EXACT_LIMITS["d_hidden"]) == {}


@pytest.mark.gpu
@pytest.mark.parametrize("path", [None, Path.PORTABLE], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_saved_logits_at_full_size_are_off_by_their_rounding(case: str, path: Path | None) -> None:
    problem = adversarial_problem(case, ProblemShape(tokens=1024, hidden=896, vocabulary=151936))
    exact, rounded = exact_results(problem), rounded_results(problem)
    # Equal roundings in another order: a logit near the middle of two 16-bit numbers may go either way.
    least = error_limits(product_errors(problem, exact), 151936)
    limits = {name: least[name] + 1.25 * error for name, error in rounded.worst(exact).items()}
    d_hidden = max(EXACT_LIMITS["d_hidden"], 1.01 * relative_error(rounded, exact))
    assert wrong(own_head(Mode.SAVED_LOGITS, path).both(problem), exact, limits, d_hidden) == {}


@pytest.mark.parametrize("name", CASES)
def test_the_logits_are_those_of_the_case(name: str) -> None:
    case = CASES[name]
    shape = ProblemShape(tokens=50, hidden=65, vocabulary=999)
    problem = adversarial_problem(name, shape, device=DEVICE, dtype=torch.float32)
    logits = problem.hidden_TH.detach().double() @ problem.weight_VH.detach().double().T
    label = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, problem.labels_T[:, None], True)
    # Equal logits have the deviation 0; their mean is still rounded as the order of its sum has it.
    assert float(logits[~label].mean()) == pytest.approx(case.offset, abs=0.05 * case.deviation, rel=1e-14)
    assert float(logits[~label].std()) == pytest.approx(case.deviation, rel=0.05)
    if case.margin is not None:
        assert logits[label].unique().tolist() == [case.offset + 7 + case.margin]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("temperature", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("path", [Path.PORTABLE, Path.REFERENCE], ids=str)
def test_any_temperature_is_finite(path: Path, temperature: float) -> None:
    problem = adversarial_problem("standard deviation 100", SMALL, device=DEVICE, dtype=torch.float32)
    hidden, weight = problem.inputs
    with tiles.only(path):
        log_probs, entropy = linear_cross_entropy(hidden, weight, problem.labels_T, temperature)
        (log_probs.sum() + entropy.sum()).backward()
    logits = hidden.detach().double() @ weight.detach().double().T
    exact = exact_outputs(logits, problem.labels_T, temperature)
    assert error(log_probs.detach(), exact[0]) <= 1e-5
    assert hidden.grad is not None and hidden.grad.isfinite().all()
    assert float((entropy.detach() - exact[1]).abs().max()) <= 1e-3


@pytest.mark.sampled(6)
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
