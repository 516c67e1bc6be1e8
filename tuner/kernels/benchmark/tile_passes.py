"""What a pass over the product computes with each plan: the same bits, or the plan is left out.

T: rows (tokens). V: vocabulary entries. N: entries of the slice whose gradient is computed.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tuner.kernels import tiles
from tuner.kernels.benchmark.problem import Problem, ProblemShape, random_problem
from tuner.kernels.dlogits import recompute
from tuner.kernels.forward import partial_statistics
from tuner.kernels.statistics import merge_splits
from tuner.kernels.tiles import Plan, TileWork

SLICE = 16384  # vocabulary entries of the slice whose gradient is timed
AGREEMENT = 1e-4  # of statistics, whose sums come in another order: float32 with logarithms around ten


@dataclass(frozen=True, kw_only=True)
class PassMatrices:
    """The matrices of a shape, and what the passes over it read and write."""

    problem: Problem
    labels_T: Tensor
    inverse_temperature_T: Tensor
    coefficients_6T: Tensor
    saved_TV: Tensor
    d_logits_TN: Tensor

    @classmethod
    def of(cls, shape: ProblemShape, device: str) -> "PassMatrices":
        """Random inputs, and room for the results."""
        problem = random_problem(shape, device=device).detached()
        tokens, width = shape.tokens, min(SLICE, shape.vocabulary)
        coefficients_6T = torch.ones((6, tokens), device=device)
        coefficients_6T[2] = torch.tensor(shape.vocabulary).log2()  # as of logits near zero
        return cls(
            problem=problem,
            labels_T=problem.labels_T.int(),
            inverse_temperature_T=torch.ones(tokens, device=device),
            coefficients_6T=coefficients_6T,
            saved_TV=problem.hidden_TH.new_empty(
                (tokens, tiles.padded(shape.vocabulary, problem.hidden_TH.dtype))
            ),
            d_logits_TN=problem.hidden_TH.new_empty((tokens, width)),
        )


def passes(plan: Plan, inputs: PassMatrices) -> dict[TileWork, Callable[[], Tensor]]:
    """The passes of a plan; each returns what it computed."""
    hidden_TH, weight_VH = inputs.problem.inputs

    def statistics(saved_TV: Tensor | None) -> Tensor:
        return partial_statistics(
            plan, hidden_TH, weight_VH, inputs.labels_T, inputs.inverse_temperature_T, saved_TV
        )

    def gradient() -> Tensor:
        recompute(plan, hidden_TH, weight_VH, inputs.labels_T, inputs.coefficients_6T, 0, inputs.d_logits_TN)
        return inputs.d_logits_TN

    return {
        TileWork.STATISTICS: lambda: statistics(None),
        TileWork.SAVING: lambda: statistics(inputs.saved_TV),
        TileWork.GRADIENT: gradient,
    }


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What a plan computes, to hold another's against: the same logits give the same bits."""

    statistics_4T: Tensor
    saved_4T: Tensor
    saved_TV: Tensor
    d_logits_TN: Tensor

    @classmethod
    def of(cls, plan: Plan, inputs: PassMatrices) -> "Numbers":
        """Run every pass once, into room that held something else."""
        inputs.saved_TV.fill_(torch.nan)
        inputs.d_logits_TN.fill_(torch.nan)
        run = passes(plan, inputs)
        merged = [
            merge_splits(run[work](), inputs.inverse_temperature_T)
            for work in (TileWork.STATISTICS, TileWork.SAVING)
        ]
        vocabulary = inputs.problem.shape.vocabulary
        return cls(
            statistics_4T=merged[0],
            saved_4T=merged[1],
            saved_TV=inputs.saved_TV[:, :vocabulary].clone(),
            d_logits_TN=run[TileWork.GRADIENT]().clone(),
        )

    def difference(self, other: "Numbers") -> str | None:
        """What is not the same; None where all is."""
        for name in ("saved_TV", "d_logits_TN"):
            if not torch.equal(getattr(self, name), getattr(other, name)):
                return f"other bits of {name}"
        for name in ("statistics_4T", "saved_4T"):
            ours, theirs = (_logarithms(getattr(numbers, name)) for numbers in (self, other))
            worst = float((ours - theirs).abs().max())
            if not worst <= AGREEMENT:
                return f"{name} off by {worst:.1e}"
        return None


def _logarithms(merged_4T: Tensor) -> Tensor:
    """Log-sum of the exponentials and the label's logit, two numbers that no order of sums changes much."""
    maximum, total, _, label_logit = merged_4T
    return torch.stack([maximum + total.log(), label_logit])


def right_plans(plans: Sequence[Plan], inputs: PassMatrices) -> Iterator[Plan]:
    """The plans that run here and agree with the first; the others are named on standard error."""
    first: Numbers | None = None
    for plan in plans:
        try:
            numbers = Numbers.of(plan, inputs)
        except Exception as error:  # a tile may need more than the card has
            sys.stderr.write(f"{plan}: {error!r}\n")
            continue
        first = first or numbers
        if different := numbers.difference(first):
            sys.stderr.write(f"{plan}: {different}\n")
            continue
        yield plan
