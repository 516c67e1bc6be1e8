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
from tuner.kernels.benchmark.outcome import BenchmarkSettings, HeadOutcome, attempt
from tuner.kernels.benchmark.problem import Problem, ProblemShape, with_policy
from tuner.kernels.benchmark.progress import StepCounter
from tuner.kernels.benchmark.report import AdversarialReport, HeadSource, HeadStatus, Task

#: How often the worst error of the same in torch from rounded logits. It is that of one token of a thousand.
TIMES_TORCH = 8.0


@dataclass(frozen=True, kw_only=True)
class _Truth:
    """What a head should compute in one case of one task: exactly, from float32 and from rounded logits."""

    exact: Results
    float32: Results
    rounded: Results
    of_product: Mapping[str, float]  # the errors that float32 logits alone bring

    def limits(self, head: Head, problem: Problem) -> dict[str, float]:
        """A head's error limits: absolute for log-probability and entropy, relative for gradients."""
        like = self.rounded if head.rounding.logits else self.float32
        limits = {name: TIMES_TORCH * error for name, error in like.worst(self.exact).items()}
        if not head.rounding.logits:
            least = error_limits(self.of_product, problem.shape.vocabulary)
            limits = {name: head.slack * least[name] for name in limits}
        for name in head.rounding.outputs:
            limits[name] += problem.unit * _largest(self.exact, name)
        relative = gradient_errors(like, self.exact)
        for name, error in relative.items():
            limits[name] = SLACK * max(EXACT_LIMITS[name], error) * head.rounding.of_sums(name, problem.shape)
        return limits


def gradient_errors(results: Results, exact: Results) -> dict[str, float]:
    """Relative norm of each gradient's error; the norm itself where the gradient's is smaller than one.

    Without the hidden states' component that carries the logits' offset: its gradient is the offset times a
    sum that is zero, of which 16 bits keep the rounding only.
    """

    def later_rows(results: Results) -> Results:
        return Results(d_hidden=results.d_hidden[:, OFFSET + 1 :], d_weight=results.d_weight)

    return later_rows(results).errors(later_rows(exact), least=1.0)


def _largest(exact: Results, name: str) -> float:
    return float(exact.present()[name].abs().max())


def measure_hard_logits(
    shapes: Sequence[ProblemShape], heads: Sequence[Head], settings: BenchmarkSettings, steps: StepCounter
) -> list[AdversarialReport]:
    """Run every head on every case of logits that break kernels, at every shape."""
    reports: list[AdversarialReport] = []
    for shape in shapes:
        for case in CASES:
            steps.begin(f"{shape}: {case}")
            problem = adversarial_problem(case, shape, device=settings.device, dtype=settings.dtype)
            of_product = product_errors(problem, exact_results(problem))
            for task in [task for task in Task if any(head.task is task for head in heads)]:
                task_problem = with_policy(problem) if task is Task.POLICY_LOSS else problem
                truth = _Truth(
                    exact=exact_results(task_problem, task),
                    float32=float32_results(task_problem, task),
                    rounded=rounded_results(task_problem, task),
                    of_product=of_product,
                )
                for head in heads:
                    if head.task is task:
                        steps.detail(f"{shape}: {case}: {head.name}")
                        reports.append(_case_report(head, task_problem, truth, case))
    return reports


def _case_report(head: Head, problem: Problem, truth: _Truth, case: str) -> AdversarialReport:
    outcome = HeadOutcome()
    attempt(partial(_numbers, head, problem, truth, outcome), outcome)
    return AdversarialReport(
        case=case,
        vocabulary=problem.shape.vocabulary,
        head=head.name,
        family=head.family,
        status=outcome.status,
        reason=outcome.reason,
        errors=outcome.errors,
        limits=outcome.limits,
    )


def _numbers(head: Head, problem: Problem, truth: _Truth, outcome: HeadOutcome) -> None:
    results = head.both(problem)
    outcome.errors = results.worst(truth.exact) | gradient_errors(results, truth.exact)
    outcome.limits = truth.limits(head, problem)
    infinite = [name for name, value in results.present().items() if not bool(value.isfinite().all())]
    off = [name for name, error in outcome.errors.items() if not error <= outcome.limits[name]]
    if infinite:
        outcome.fail(HeadStatus.WRONG, "not finite: " + ", ".join(infinite))
    elif off:
        outcome.fail(HeadStatus.WRONG, "off: " + ", ".join(off))
    elif "entropy" in outcome.errors and head.family is HeadSource.OURS and _negative(results):
        outcome.fail(HeadStatus.WRONG, "entropy below zero")


def _negative(results: Results) -> bool:
    return results.entropy is not None and bool((results.entropy < 0).any())
