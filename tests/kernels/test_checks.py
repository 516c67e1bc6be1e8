"""Each wrong argument is a ValueError that names it."""

from typing import Any

import pytest
import torch

from tuner.kernels import linear_cross_entropy, log_prob_and_entropy

HIDDEN = torch.ones(3, 4)
WEIGHT = torch.ones(5, 4)
LABELS = torch.tensor([0, 4, -100])
ELSEWHERE = torch.device("meta")

WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "hidden without an H": ("hidden", {"hidden": torch.tensor(1.0)}),
    "hidden of size 0": ("hidden", {"hidden": torch.ones(3, 0), "weight": torch.ones(5, 0)}),
    "hidden in float64": ("hidden", {"hidden": HIDDEN.double(), "weight": WEIGHT.double()}),
    "weight in three dimensions": ("weight", {"weight": WEIGHT[None]}),
    "weight without rows": ("weight", {"weight": WEIGHT[:0]}),
    "weight of another H": ("weight", {"weight": torch.ones(5, 3)}),
    "weight of another dtype": ("weight", {"weight": WEIGHT.half()}),
    "weight elsewhere": ("weight", {"weight": WEIGHT.to(ELSEWHERE)}),
    "labels of another shape": ("labels", {"labels": LABELS[:2]}),
    "labels in float": ("labels", {"labels": LABELS.float()}),
    "labels elsewhere": ("labels", {"labels": LABELS.to(ELSEWHERE)}),
    "label too large": (r"labels .* not 5", {"labels": torch.tensor([0, 5, -100])}),
    "label negative": (r"labels .* not -7", {"labels": torch.tensor([0, -7, -100])}),
    "temperature zero": ("temperature", {"temperature": 0.0}),
    "temperature negative": ("temperature", {"temperature": -1}),
    "temperature infinite": ("temperature", {"temperature": float("inf")}),
    "temperature NaN": ("temperature", {"temperature": float("nan")}),
    "a row's temperature zero": ("temperature", {"temperature": torch.tensor([1.0, 0.0, 1.0])}),
    "a row's temperature NaN": ("temperature", {"temperature": torch.tensor([1.0, torch.nan, 1.0])}),
    "temperature of another shape": ("temperature", {"temperature": torch.ones(2)}),
    "temperature elsewhere": ("temperature", {"temperature": torch.ones(3, device=ELSEWHERE)}),
    "temperature with a gradient": ("temperature", {"temperature": torch.ones(3, requires_grad=True)}),
    "unknown reduction": ("reduction .* none, sum, mean", {"reduction": "max"}),
    "unknown mode": ("mode .* recompute, saved_logits", {"mode": "fast"}),
    "negative slice": ("slice_width", {"slice_width": -1}),
}


@pytest.mark.parametrize("name", WRONG)
def test_linear_cross_entropy(name: str) -> None:
    message, arguments = WRONG[name]
    with pytest.raises(ValueError, match=f"^{message}"):
        linear_cross_entropy(**{"hidden": HIDDEN, "weight": WEIGHT, "labels": LABELS, **arguments})


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("logits", {"logits": torch.tensor(1.0)}),
        ("logits", {"logits": torch.ones(3, 0)}),
        ("logits", {"logits": torch.ones(3, 5).double()}),
        ("labels", {"labels": LABELS[:2]}),
        (r"labels .* not 5", {"labels": torch.tensor([0, 5, -100])}),
        ("temperature", {"temperature": 0}),
    ],
)
def test_log_prob_and_entropy(message: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        log_prob_and_entropy(**{"logits": torch.ones(3, 5), "labels": LABELS, **arguments})


def test_the_arguments_that_the_cases_start_from_are_right() -> None:
    linear_cross_entropy(HIDDEN, WEIGHT, LABELS)
    # What is left out is not looked at.
    linear_cross_entropy(HIDDEN, WEIGHT, LABELS, torch.tensor([1.0, 1.0, 0.0]))


def test_positions_are_those_of_verls_function() -> None:
    outputs = linear_cross_entropy(HIDDEN, WEIGHT, LABELS, 1.0, "none", None)
    assert torch.allclose(outputs[1][:2], torch.tensor(5.0).log())
