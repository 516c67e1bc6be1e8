"""The policy loss as callers see it: arguments, autograd, compiled models, weights of tokens."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.kernels.exact import DEVICE
from tests.kernels.exact_policy import BONUSES, exact_policy, exact_token_losses, random_policy_case
from tests.kernels.policy_runs import PATHS, assert_same, loss_of, run
from tuner.kernels import linear_cross_entropy, linear_policy_loss, policy_ops, tiles
from tuner.kernels.tiles import Path

pytestmark = pytest.mark.sampled(6)


@pytest.mark.parametrize("path", PATHS)
def test_without_gradients_it_is_the_other_head(path: Path) -> None:
    case = random_policy_case(20, 16, 70, torch.float16, **BONUSES)
    head = case.head
    with tiles.only(path), torch.no_grad():
        result = loss_of(case)
        log_probs, entropy = linear_cross_entropy(head.hidden, head.weight, head.labels, head.temperature)
    assert torch.equal(result.log_probs, log_probs) and torch.equal(result.entropy, entropy)
    logits = head.hidden.detach().double() @ head.weight.detach().double().T
    exact = exact_policy(logits, case)
    assert not result.loss.requires_grad and abs(result.loss - exact.loss) <= 3e-6 * exact.size


@pytest.mark.parametrize("path", PATHS)
def test_the_gradient_of_the_loss_is_a_factor(path: Path) -> None:
    case = random_policy_case(20, 16, 70, torch.bfloat16)
    with tiles.only(path):
        once, half, other = (run(case, upstream, chunk_tokens=9) for upstream in (1.0, 0.5, 0.7))
    for plain, halved, scaled in zip(once[3:], half[3:], other[3:], strict=True):
        assert torch.equal(plain * 0.5, halved)
        # The interpreter cuts bfloat16 off.
        torch.testing.assert_close(plain.float() * 0.7, scaled.float(), rtol=2**-7, atol=0)


def test_gradients_are_handed_over_and_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    case = random_policy_case(20, 16, 70, torch.float32)
    handed: list[int] = []
    scaled = policy_ops._scaled

    def spy(values: Tensor, factor: Tensor) -> Tensor:
        handed.append(values.data_ptr())
        return scaled(values, factor)

    monkeypatch.setattr(policy_ops, "_scaled", spy)
    loss_of(case).loss.backward()
    gradients = (case.head.hidden.grad, case.head.weight.grad)
    assert handed == [gradient.data_ptr() for gradient in gradients if gradient is not None]


def test_second_derivatives_are_refused() -> None:
    case = random_policy_case(20, 16, 70, torch.float32)
    with pytest.raises(RuntimeError, match="second derivatives"):
        torch.autograd.grad(loss_of(case).loss, case.head.hidden, create_graph=True)


@pytest.mark.parametrize("path", PATHS)
def test_a_second_backward_pass_is_refused(path: Path) -> None:
    with tiles.only(path):
        loss = loss_of(random_policy_case(20, 16, 70, torch.float16)).loss
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("path", PATHS)
def test_strided_and_batched_inputs(path: Path) -> None:
    case = random_policy_case(12, 16, 70, torch.float16, **BONUSES)
    hidden = case.head.hidden.detach().repeat_interleave(2, 1).reshape(3, 4, 32)[..., ::2].requires_grad_()
    weight = case.head.weight.detach().T.contiguous().T.requires_grad_()
    head = replace(
        case.head,
        hidden=hidden,
        weight=weight,
        labels=case.head.labels.int().reshape(3, 4),
        temperature=case.head.temperature.reshape(3, 4),
    )
    batched = replace(
        case,
        head=head,
        old_log_probs=case.old_log_probs.double().reshape(3, 4),
        advantages=case.advantages.reshape(4, 3).T.contiguous().T.reshape(3, 4),
        token_weights=case.token_weights.reshape(3, 4),
        ref_log_probs=case.ref_log_probs.reshape(3, 4),
    )
    with tiles.only(path):
        expected, results = run(case), run(batched)
    assert_same([left.reshape(right.shape) for left, right in zip(results, expected, strict=True)], expected)


def test_autocast_casts_both_as_a_linear_layer() -> None:
    case = random_policy_case(12, 16, 70, torch.float32)
    halves = replace(
        case.head,
        hidden=case.head.hidden.detach().bfloat16().requires_grad_(),
        weight=case.head.weight.detach().bfloat16().requires_grad_(),
    )
    expected = run(replace(case, head=halves))
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        results = run(case)
    assert results[3].dtype == results[4].dtype == torch.float32
    assert_same(results, [value.float() for value in expected])


SEQUENCE_SHAPE = (4, 6)


def weights_of(mode: str, mask: Tensor) -> Tensor:
    """As the docstring of ``linear_policy_loss`` has them."""
    sequences = mask.any(-1).sum()
    return {
        "token-mean": mask / mask.sum(),
        "token-sum": mask,
        "seq-mean-token-sum": mask / sequences,
        "seq-mean-token-sum-norm": mask / sequences / 7,
        "seq-mean-token-mean": mask / (mask.sum(-1, keepdim=True) + 1e-8) / sequences,
    }[mode]


def aggregated(mode: str, losses: Tensor, mask: Tensor) -> Tensor:
    """verl's ``agg_loss`` on one rank, sequence by sequence."""
    if mode.startswith("token"):
        chosen = losses[mask > 0]
        return chosen.mean() if mode == "token-mean" else chosen.sum()
    of_sequences = [row[used > 0] for row, used in zip(losses, mask, strict=True) if used.any()]
    if mode == "seq-mean-token-mean":
        return torch.stack([row.mean() for row in of_sequences]).mean()
    mean = torch.stack([row.sum() for row in of_sequences]).mean()
    return mean / 7 if mode.endswith("norm") else mean


@pytest.mark.parametrize(
    "mode",
    ["token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean"],
)
def test_token_weights_stand_for_every_way_to_aggregate(mode: str) -> None:
    case = random_policy_case(24, 16, 70, torch.float32, **BONUSES)
    case.head.labels.clamp_(min=0)
    mask = torch.ones(SEQUENCE_SHAPE, device=DEVICE)
    mask[0, 2:] = mask[1] = mask[2, 5:] = 0
    case = replace(case, token_weights=weights_of(mode, mask).reshape(-1))
    with torch.no_grad():
        result = loss_of(case)
    unweighted = replace(case, token_weights=torch.ones(24, device=DEVICE))
    losses = exact_token_losses(result.log_probs.double(), result.entropy.double(), unweighted)
    exact = aggregated(mode, losses.reshape(SEQUENCE_SHAPE), mask)
    torch.testing.assert_close(result.loss.double(), exact, rtol=1e-5, atol=1e-6)


def test_on_policy_the_ratio_is_one_and_has_a_gradient() -> None:
    case = random_policy_case(24, 16, 70, torch.float32, **BONUSES)
    with torch.no_grad():
        own = loss_of(case).log_probs
    exact = run(replace(case, old_log_probs=own))
    torch.testing.assert_close(run(case, old_log_probs=None), exact, rtol=1e-4, atol=1e-6)


def test_weights_of_importance_sampling_are_factors_of_the_advantages() -> None:
    case = random_policy_case(24, 16, 70, torch.float32)
    factors = torch.rand(24, device=DEVICE)
    exact = run(replace(case, token_weights=case.token_weights * factors))
    results = run(replace(case, advantages=case.advantages * factors))
    torch.testing.assert_close(results, exact, rtol=1e-4, atol=1e-6)


VECTOR = torch.ones(3)
ARGUMENTS: dict[str, Any] = {
    "hidden": torch.ones(3, 4),
    "weight": torch.ones(5, 4),
    "labels": torch.tensor([0, 4, -100]),
    "old_log_probs": VECTOR,
    "advantages": VECTOR,
    "token_weights": VECTOR,
}
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "weight of another dtype": ("weight", {"weight": torch.ones(5, 4).half()}),
    "labels of another shape": ("labels", {"labels": torch.tensor([0])}),
    "label too large": (r"labels .* not 5", {"labels": torch.tensor([0, 5, -100])}),
    "temperature": ("temperature", {"temperature": 0.0}),
    "old log-probs of another shape": ("old_log_probs", {"old_log_probs": VECTOR[:2]}),
    "advantages of whole sequences": ("advantages", {"advantages": torch.tensor(1.0)}),
    "advantages elsewhere": ("advantages", {"advantages": VECTOR.to("meta")}),
    "weights of integers": ("token_weights", {"token_weights": VECTOR.int()}),
    "old log-probs with a gradient": ("old_log_probs", {"old_log_probs": torch.ones(3, requires_grad=True)}),
    "reference of another shape": ("ref_log_probs", {"ref_log_probs": VECTOR[:2]}),
    "no reference": ("ref_log_probs", {"kl_loss_coef": 0.1}),
    "clip_ratio_low": ("clip_ratio_low", {"clip_ratio_low": 1.1}),
    "clip_ratio_low NaN": ("clip_ratio_low", {"clip_ratio_low": float("nan")}),
    "clip_ratio_high": ("clip_ratio_high", {"clip_ratio_high": -0.1}),
    "clip_ratio_high infinite": ("clip_ratio_high", {"clip_ratio_high": float("inf")}),
    "clip_ratio_c": ("clip_ratio_c", {"clip_ratio_c": 1.0}),
    "entropy_coeff": ("entropy_coeff", {"entropy_coeff": float("nan")}),
    "kl_loss_coef": ("kl_loss_coef", {"kl_loss_coef": float("inf"), "ref_log_probs": VECTOR}),
    "chunk_tokens": ("chunk_tokens", {"chunk_tokens": -1}),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_argument_is_named(name: str) -> None:
    message, arguments = WRONG[name]
    with pytest.raises(ValueError, match=f"^{message}"):
        linear_policy_loss(**{**ARGUMENTS, **arguments})


def test_the_arguments_that_the_cases_start_from_are_right() -> None:
    assert linear_policy_loss(**ARGUMENTS).loss.isfinite()
