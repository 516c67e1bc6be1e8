"""All heads on one shape: first whether they are right, then, of those that are, how fast.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch

from tuner.kernels.benchmark.exact import Results, exact_results, rounded_results
from tuner.kernels.benchmark.heads import Head
from tuner.kernels.benchmark.outcome import (
    BenchmarkSettings,
    HeadOutcome,
    attempt,
    head_report,
    missing_report,
    wrong_results,
)
from tuner.kernels.benchmark.problem import ProblemShape, random_problem, with_policy
from tuner.kernels.benchmark.progress import StepCounter
from tuner.kernels.benchmark.report import HeadSource, HeadStatus, Passes, ShapeReport, Task, Times
from tuner.kernels.benchmark.rivals import Missing
from tuner.kernels.benchmark.speed import bare_products, burst, speeds, warm_up
from tuner.kernels.benchmark.timing import Call, Timed, interleaved, peak_bytes, seconds
from tuner.units import GIB

ZERO_GRADIENT = 0.75


@dataclass(frozen=True, kw_only=True)
class _Truth:
    exact: Results
    rounded: dict[str, float]


class _Measurement:
    """The measurement of all heads on one shape."""

    def __init__(
        self, shape: ProblemShape, heads: Sequence[Head], settings: BenchmarkSettings, steps: StepCounter
    ) -> None:
        self.shape, self.heads, self.settings, self.steps = shape, heads, settings, steps
        self.tasks = [task for task in Task if any(head.task is task for head in heads)]
        made = partial(random_problem, shape, device=settings.device, dtype=settings.dtype)
        self.problem = made()
        self.sparse = made(zero_gradient=ZERO_GRADIENT)
        if Task.POLICY_LOSS in self.tasks:
            self.problem = with_policy(self.problem)
        self.outcomes = {head.name: HeadOutcome() for head in heads}
        self.rounded: dict[Task, dict[str, float]] = {}

    def check(self) -> None:
        """Check every head against float64, one task after the other."""
        for task in self.tasks:
            self.steps.begin(f"{self.shape}: {task.value} in float64")
            exact = exact_results(self.problem, task)
            self.rounded[task] = rounded_results(self.problem, task).errors(exact)
            truth = _Truth(exact=exact, rounded=self.rounded[task])
            for head in self.heads:
                if head.task is task:
                    self.steps.begin(f"{self.shape}: {head.name}")
                    self._check_one(head, truth)

    def _check_one(self, head: Head, truth: _Truth) -> None:
        outcome = self.outcomes[head.name]
        needed = head.bytes_per_logit * self.shape.tokens * self.shape.vocabulary
        free = free_bytes(self.settings.device)
        if free is not None and needed > free:
            outcome.fail(HeadStatus.SKIPPED, f"needs {needed / GIB:.0f} GiB, {free / GIB:.0f} GiB are free")
            return
        attempt(partial(self._numbers, head, outcome, truth), outcome)

    def _numbers(self, head: Head, outcome: HeadOutcome, truth: _Truth) -> None:
        device = self.settings.device
        forward_s, outputs = seconds(partial(head.forward, self.problem), device)
        del outputs
        both_s, first = seconds(partial(head.both, self.problem), device)
        if not isinstance(first, Results):
            raise TypeError(f"{head.name} gave {type(first).__name__}")
        if self.settings.clock is not None:
            outcome.first_call = Passes(forward=forward_s, both=both_s)
        outcome.errors = first.errors(truth.exact)
        outcome.limits = head.limits(self.problem, truth.exact, truth.rounded)
        second = head.both(self.problem).present()
        outcome.same_bits = all(torch.equal(value, second[name]) for name, value in first.present().items())
        wrong = wrong_results(first, outcome.errors, outcome.limits)
        if head.family is HeadSource.OURS and not outcome.same_bits and not wrong:
            wrong.append("other bits the second time")
        if wrong:
            outcome.fail(HeadStatus.WRONG, ", ".join(wrong))

    def right(self) -> list[Head]:
        """The heads whose numbers are right so far."""
        return [head for head in self.heads if self.outcomes[head.name].status is HeadStatus.RIGHT]

    def peaks(self) -> None:
        """Measure the peak memory of every head that is right, on a GPU."""
        self.steps.begin(f"{self.shape}: peaks")
        if not self.settings.device.startswith("cuda"):
            return
        for head in self.right():
            self.steps.detail(f"{self.shape}: peak of {head.name}")
            attempt(partial(self._peak, head), self.outcomes[head.name])

    def _peak(self, head: Head) -> None:
        head_bytes = head.held_bytes(self.shape)
        self.outcomes[head.name].peak = Passes(
            forward=head_bytes + peak_bytes(partial(head.forward, self.problem)),
            both=head_bytes + peak_bytes(partial(head.both, self.problem)),
        )

    def times(self) -> dict[str, Timed]:
        """Time every head that is right and the bare products, in turns."""
        self.steps.begin(f"{self.shape}: times")
        clock = self.settings.clock
        if clock is None:
            return {}
        runs: dict[str, Call] = {**bare_products(self.problem), "burst": burst(self.settings.device)}
        for head in self.right():
            runs[f"{head.name}: forward"] = partial(head.forward, self.problem)
            runs[f"{head.name}: both"] = partial(head.both, self.problem)
            if head.skips_rows:
                runs[f"{head.name}: few gradients"] = partial(head.both, self.sparse)
        rounds = self.settings.rounds

        def failed(name: str, error: Exception) -> None:
            self.outcomes[name.rpartition(": ")[0]].fail_with(error)

        return interleaved(
            runs,
            rounds,
            clock=clock,
            before=warm_up(self.settings.device),
            say=lambda number: self.steps.detail(f"{self.shape}: round {number} of {rounds}"),
            failed=failed,
        )


def free_bytes(device: str) -> int | None:
    """Bytes of a GPU that are free, or held by torch without a use; None on a CPU."""
    if not device.startswith("cuda"):
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def steps_of(heads: Sequence[Head]) -> int:
    """How many steps one shape takes."""
    return len({head.task for head in heads}) + len(heads) + 2


def measure(
    shape: ProblemShape, heads: Sequence[Head | Missing], settings: BenchmarkSettings, steps: StepCounter
) -> ShapeReport:
    """Measure all heads on one shape, and report those that are missing too."""
    present = [head for head in heads if isinstance(head, Head)]
    measurement = _Measurement(shape, present, settings, steps)
    measurement.check()
    measurement.peaks()
    times = measurement.times()
    head_speeds = speeds(shape, measurement.right(), times)
    reports = [
        missing_report(head)
        if isinstance(head, Missing)
        else head_report(head, measurement.outcomes[head.name], head_speeds.get(head.name), settings)
        for head in heads
    ]
    return ShapeReport(
        tokens=shape.tokens,
        hidden=shape.hidden,
        vocabulary=shape.vocabulary,
        products={name: Times(**vars(timed)) for name, timed in times.items() if ": " not in name},
        rounded_errors=measurement.rounded,
        heads=tuple(reports),
    )
