"""A head as it is measured: what it computes, what it rounds, and how its passes are run.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from math import sqrt

import torch
from torch import Tensor

from tuner.kernels import Mode, linear_cross_entropy, linear_policy_loss, tiles
from tuner.kernels.benchmark.exact import Results
from tuner.kernels.benchmark.problem import (
    CLIP_RATIO,
    ENTROPY_COEFF,
    KL_LOSS_COEF,
    Problem,
    ProblemShape,
)
from tuner.kernels.benchmark.report import HeadSource, Task

# Relative norm of the error against float64. A matrix rounded to bfloat16 is off by 2.3e-3.
EXACT_LIMITS = {"log_probs": 1e-5, "entropy": 1e-5, "loss": 1e-5, "d_hidden": 2.5e-3, "d_weight": 2.5e-3}
EQUAL_ROUNDINGS = 1.01  # equal roundings in another order do not give equal errors
SLACK = 1.25  # for the heads of others


Run = Callable[[Problem], tuple[Tensor, ...]]


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """What a head rounds to the dtype of its inputs beside the gradients that it returns.

    Attributes:
        logits: the logits.
        logits_dtype: to which it rounds them, if not to that of its inputs.
        outputs: the results that are not in float32.
        sums: of a gradient, how many partial sums are added up in 16 bits.
    """

    logits: bool = False
    logits_dtype: torch.dtype | None = None
    outputs: tuple[str, ...] = ()
    sums: Mapping[str, Callable[[ProblemShape], int]] = field(default_factory=dict)

    def limits(
        self,
        shape: ProblemShape,
        rounded: Mapping[str, float],
        *,
        unit: float,
        slack: float,
        loss_slopes: Mapping[str, float] | None = None,
    ) -> dict[str, float]:
        """The largest error of each result with which the head's speed is told.

        Args:
            shape: of the inputs.
            rounded: the errors of a head whose logits torch rounds.
            unit: the largest relative error of one rounding.
            slack: how much further off a result may be.
            loss_slopes: of :class:`Results`. A loss is a sum of numbers of both signs: how far off it is says
                nothing by itself, how far off its addends may be does.
        """
        limits: dict[str, float] = {}
        # An error of rounded logits is in proportion to the unit of their dtype.
        finer = torch.finfo(self.logits_dtype).eps / 2 / unit if self.logits_dtype else 1.0
        for name, least in EXACT_LIMITS.items():
            if name not in rounded:
                continue
            limit = max(least, EQUAL_ROUNDINGS * finer * rounded[name]) if self.logits else least
            if name in self.outputs:
                limit += unit
            elif self.outputs and name not in ("log_probs", "entropy"):
                # Such a result's upstream gradient is rounded like it: three roundings where there were two.
                limit *= sqrt(1.5)
            limits[name] = slack * limit * self.of_sums(name, shape)
        if "loss" in limits and loss_slopes:
            moved = sum(slope * limits[name] for name, slope in loss_slopes.items() if name in limits)
            limits["loss"] = max(limits["loss"], moved)
        return limits

    def of_sums(self, name: str, shape: ProblemShape) -> float:
        """By how much the sums in 16 bits raise a gradient's error.

        Partial sums that are independent grow as the root of their number, and each addition rounds what
        there is so far: n of them bring an error sqrt((n + 1) / 2) times that of one rounding.
        """
        return sqrt((self.sums[name](shape) + 1) / 2) if name in self.sums else 1.0


@dataclass(frozen=True, kw_only=True)
class Head:
    """A way to compute one of the tasks.

    Attributes:
        name: as reports have it.
        family: whose it is.
        task: what it computes.
        run: from a problem to the task's outputs, differentiable.
        products: matrix products of both passes.
        rounding: what it rounds.
        bytes_per_logit: what both passes hold of all logits at once, to skip what cannot fit.
        reentrant: whether its backward pass has to be that of ``Tensor.backward``.
        skips_rows: whether rows without upstream gradient cost less.
        version: of the package that brings it.
        within: holds while it runs.
        held_bytes: what both passes hold on the device that torch's allocator does not count.
    """

    name: str
    family: HeadSource
    task: Task
    run: Run
    products: int
    rounding: Rounding = Rounding()
    bytes_per_logit: int = 0
    reentrant: bool = False
    skips_rows: bool = False
    version: str | None = None
    within: Callable[[], AbstractContextManager[None]] = nullcontext
    held_bytes: Callable[[ProblemShape], int] = lambda shape: 0

    @property
    def slack(self) -> float:
        """Factor on the limits of its errors: 1 for this package's own heads."""
        return 1.0 if self.family is HeadSource.OURS else SLACK

    def limits(self, problem: Problem, exact: Results, rounded: Mapping[str, float]) -> dict[str, float]:
        """The largest error of each result with which it is right, see :meth:`Rounding.limits`."""
        return self.rounding.limits(
            problem.shape, rounded, unit=problem.unit, slack=self.slack, loss_slopes=exact.loss_slopes
        )

    def forward(self, problem: Problem) -> tuple[Tensor, ...]:
        """Run the forward pass alone, without gradients."""
        with torch.no_grad(), self.within():
            return self.run(problem.detached())

    def both(self, problem: Problem) -> Results:
        """Run the forward and the backward pass."""
        with self.within():
            outputs = self.run(problem)
            gradients = self._gradients(problem, outputs)
        named = dict(zip(self.task.outputs, (output.detach() for output in outputs), strict=True))
        return Results(
            log_probs=named.get("log_probs"),
            entropy=named.get("entropy"),
            loss=named.get("loss"),
            d_hidden=gradients[0],
            d_weight=gradients[1],
        )

    def _gradients(self, problem: Problem, outputs: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
        if "loss" in self.task.outputs:
            outputs, upstream = outputs[:1], None
        else:
            derivatives = (problem.d_log_probs_T, problem.d_entropy_T)
            upstream = tuple(
                gradient.to(output.dtype) for gradient, output in zip(derivatives, outputs, strict=False)
            )
        if not self.reentrant:
            d_hidden, d_weight = torch.autograd.grad(outputs, problem.inputs, upstream)
            return d_hidden, d_weight
        torch.autograd.backward(outputs, upstream)
        gradients = [matrix.grad for matrix in problem.inputs]
        for matrix in problem.inputs:
            matrix.grad = None
        if gradients[0] is None or gradients[1] is None:
            raise RuntimeError(f"{self.name} gave no gradient")
        return gradients[0], gradients[1]


def own_head(mode: Mode, path: tiles.Path | None = None) -> Head:
    """:func:`tuner.kernels.linear_cross_entropy` in one mode; the device chooses where no path is given."""

    def run(problem: Problem) -> tuple[Tensor, ...]:
        return linear_cross_entropy(*problem.inputs, problem.labels_T, mode=mode)

    return Head(
        name=_named(mode.value, path),
        family=HeadSource.OURS,
        task=Task.EACH,
        run=run,
        products=4 if mode is Mode.RECOMPUTE else 3,
        rounding=Rounding(logits=mode is Mode.SAVED_LOGITS),
        skips_rows=True,
        within=_only(path),
    )


def policy_loss_head(path: tiles.Path | None = None) -> Head:
    """:func:`tuner.kernels.linear_policy_loss`; the device chooses where no path is given."""

    def run(problem: Problem) -> tuple[Tensor, ...]:
        inputs = problem.policy
        if inputs is None:
            raise ValueError("the problem has no policy")
        return linear_policy_loss(
            *problem.inputs,
            problem.labels_T,
            inputs.old_log_probs_T,
            inputs.advantages_T,
            inputs.token_weights_T,
            clip_ratio_low=CLIP_RATIO,
            clip_ratio_high=CLIP_RATIO,
            entropy_coeff=ENTROPY_COEFF,
            ref_log_probs=inputs.ref_log_probs_T,
            kl_loss_coef=KL_LOSS_COEF,
        )

    return Head(
        name=_named("policy_loss", path),
        family=HeadSource.OURS,
        task=Task.POLICY_LOSS,
        run=run,
        products=3,
        rounding=Rounding(logits=True),
        within=_only(path),
    )


def _named(name: str, path: tiles.Path | None) -> str:
    return name if path is None else f"{name} ({path.value})"


def _only(path: tiles.Path | None) -> Callable[[], AbstractContextManager[None]]:
    return nullcontext if path is None else lambda: tiles.only(path)


PATHS = (None, tiles.Path.PORTABLE)
HEADS = [
    head for path in PATHS for head in (*(own_head(mode, path) for mode in Mode), policy_loss_head(path))
]
