"""The heads that are measured, each with what it must keep to.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from tuner.kernels import Mode, linear_cross_entropy, tiles
from tuner.kernels.benchmark.problem import Problem, Results

# Relative norm of the error against float64. A matrix rounded to bfloat16 is off by 2.3e-3.
EXACT_LIMITS = {"log_probs": 1e-5, "entropy": 1e-5, "d_hidden": 2.5e-3, "d_weight": 2.5e-3}


@dataclass(frozen=True, kw_only=True)
class Head:
    """One mode on one path; the path that the device calls for where it is None."""

    mode: Mode
    path: tiles.Path | None = None

    @property
    def name(self) -> str:
        """As the report has it."""
        return self.mode.value if self.path is None else f"{self.mode.value} ({self.path.value})"

    @property
    def products(self) -> int:
        """Matrix products of both passes."""
        return 4 if self.mode is Mode.RECOMPUTE else 3

    def _within(self) -> AbstractContextManager[None]:
        return nullcontext() if self.path is None else tiles.only(self.path)

    def forward(self, problem: Problem) -> tuple[Tensor, Tensor]:
        """Without gradients."""
        with torch.no_grad(), self._within():
            return linear_cross_entropy(
                problem.hidden_TH, problem.weight_VH, problem.labels_T, mode=self.mode
            )

    def both(self, problem: Problem) -> Results:
        """With gradients."""
        inputs = (problem.hidden_TH, problem.weight_VH)
        with self._within():
            log_probs, entropy = linear_cross_entropy(*inputs, problem.labels_T, mode=self.mode)
            upstream = (problem.d_log_probs_T, problem.d_entropy_T)
            d_hidden, d_weight = torch.autograd.grad((log_probs, entropy), inputs, upstream)
        return Results(
            log_probs=log_probs.detach(), entropy=entropy.detach(), d_hidden=d_hidden, d_weight=d_weight
        )


HEADS = [Head(mode=mode, path=path) for path in (None, tiles.Path.PORTABLE) for mode in Mode]
