"""Every head on logits that break kernels: what it finds, and whether a float32 head would find better.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tuner.kernels.benchmark.adversarial import (
    CASES,
    OFFSET,
    adversarial_problem,
    error_limits,
    product_errors,
)
from tuner.kernels.benchmark.exact import (
    Results,
    exact_results,
    float32_results,
    rounded_results,
)
from tuner.kernels.benchmark.heads import EXACT_LIMITS, SLACK, Head
from tuner.kernels.benchmark.outcome import Found, Settings, attempt
from tuner.kernels.benchmark.problem import Problem, Shape, with_policy
from tuner.kernels.benchmark.progress import Steps
from tuner.kernels.benchmark.report import AdversarialReport, Family, Status, Task

#: How often the worst error of the same in torch from rounded logits. It is that of one token of a thousand.
TIMES_TORCH = 8.0


@dataclass(frozen=True, kw_only=True)
class _Truth:
    """Of one case and task: exact, and as torch has it from float32 and from rounded logits."""

    exact: Results
    float32: Results
    rounded: Results
    of_product: Mapping[str, float]  # the errors that float32 logits alone bring

    def limits(self, head: Head, problem: Problem) -> dict[str, float]:
        """Absolute for log-probability and entropy, relative for gradients."""
        like = self.rounded if head.rounding.logits else self.float32
        found = {name: TIMES_TORCH * error for name, error in like.worst(self.exact).items()}
        if not head.rounding.logits:
            least = error_limits(self.of_product, problem.shape.vocabulary)
            found = {name: head.slack * least[name] for name in found}
        for name in head.rounding.outputs:
            found[name] += problem.unit * _largest(self.exact, name)
        relative = gradient_errors(like, self.exact)
        for name, error in relative.items():
            found[name] = SLACK * max(EXACT_LIMITS[name], error) * head.rounding.of_sums(name, problem.shape)
        return found


def gradient_errors(found: Results, exact: Results) -> dict[str, float]:
    """Relative norm, of gradients smaller than one the norm itself.

    Without the hidden states' component that carries the logits' offset: its gradient is the offset times a
    sum that is zero, of which 16 bits keep the rounding only.
    """

    def kept(results: Results) -> Results:
        return Results(d_hidden=results.d_hidden[:, OFFSET + 1 :], d_weight=results.d_weight)

    return kept(found).errors(kept(exact), least=1.0)


def _largest(exact: Results, name: str) -> float:
    return float(exact.present()[name].abs().max())


def measure_hard_logits(
    shapes: Sequence[Shape], heads: Sequence[Head], settings: Settings, steps: Steps
) -> list[AdversarialReport]:
    """Every head on every case of every shape."""
    found: list[AdversarialReport] = []
    for shape in shapes:
        for case in CASES:
            steps.begin(f"{shape}: {case}")
            problem = adversarial_problem(case, shape, device=settings.device, dtype=settings.dtype)
            of_product = product_errors(problem, exact_results(problem))
            for task in [task for task in Task if any(head.task is task for head in heads)]:
                asked = with_policy(problem) if task is Task.POLICY_LOSS else problem
                truth = _Truth(
                    exact=exact_results(asked, task),
                    float32=float32_results(asked, task),
                    rounded=rounded_results(asked, task),
                    of_product=of_product,
                )
                for head in heads:
                    if head.task is task:
                        steps.detail(f"{shape}: {case}: {head.name}")
                        found.append(_one(head, asked, truth, case))
    return found


def _one(head: Head, problem: Problem, truth: _Truth, case: str) -> AdversarialReport:
    found = Found()
    attempt(partial(_numbers, head, problem, truth, found), found)
    return AdversarialReport(
        case=case,
        vocabulary=problem.shape.vocabulary,
        head=head.name,
        family=head.family,
        status=found.status,
        reason=found.reason,
        errors=found.errors,
        limits=found.limits,
    )


def _numbers(head: Head, problem: Problem, truth: _Truth, found: Found) -> None:
    results = head.both(problem)
    found.errors = results.worst(truth.exact) | gradient_errors(results, truth.exact)
    found.limits = truth.limits(head, problem)
    infinite = [name for name, value in results.present().items() if not bool(value.isfinite().all())]
    off = [name for name, error in found.errors.items() if not error <= found.limits[name]]
    if infinite:
        found.fail(Status.WRONG, "not finite: " + ", ".join(infinite))
    elif off:
        found.fail(Status.WRONG, "off: " + ", ".join(off))
    elif "entropy" in found.errors and head.family is Family.OURS and _negative(results):
        found.fail(Status.WRONG, "entropy below zero")


def _negative(results: Results) -> bool:
    return results.entropy is not None and bool((results.entropy < 0).any())
