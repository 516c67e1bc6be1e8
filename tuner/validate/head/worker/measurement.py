"""Measures implementations of the output head: against float64 on some rows, then bytes, then times.

T: rows (tokens). V: vocabulary entries. H: hidden size.

T: rows (tokens). V: vocabulary entries. H: hidden size. S: rows of the sample.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter

import torch
from torch import Tensor

from tuner.kernels.benchmark.exact import Results, exact_results, rounded_results
from tuner.kernels.benchmark.heads import Head
from tuner.kernels.benchmark.outcome import in_a_line
from tuner.kernels.benchmark.problem import Problem, ProblemShape, random_problem, with_policy
from tuner.kernels.benchmark.report import Task
from tuner.kernels.benchmark.timing import LEAST_ROUNDS, Call, interleaved, peak_bytes
from tuner.validate.head.settings import HeadFigures, HeadPass, HeadShape, HeadWork, smaller_sizes
from tuner.validate.head.worker.choice import ImplementationChoice, choices, compiles, ready_seconds
from tuner.validate.head.worker.record import Record, TimedCall

_FIRST_CALLS = 0.75  # of the time, within which another implementation may begin; the rest is for times
_OF_ROWS = ("log_probs", "entropy", "d_hidden")


def part(problem: Problem, rows: slice | Tensor) -> Problem:
    """Some rows of a problem; a slice shares its memory."""
    policy = problem.policy
    return replace(
        problem,
        hidden_TH=problem.hidden_TH.detach()[rows].requires_grad_(),
        labels_T=problem.labels_T[rows],
        d_log_probs_T=problem.d_log_probs_T[rows],
        d_entropy_T=problem.d_entropy_T[rows],
        policy=None
        if policy is None
        else replace(policy, **{name: value[rows] for name, value in vars(policy).items()}),
    )


def free_bytes(device: torch.device) -> int:
    """What this process may still allocate: on the device, and of its own limit."""
    free, total = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    limit = int(total * torch.cuda.get_per_process_memory_fraction(device))
    return min(free + unused, limit - torch.cuda.memory_allocated(device))


def relative_error(value: Tensor, exact: Tensor) -> float:
    """Norm of the difference over the norm."""
    return float((value.double() - exact).norm() / exact.double().norm())


def measure_head(work: HeadWork, device: str) -> HeadFigures:
    """All figures, those that are configured or proposed first."""
    bench = _Bench(work, device)
    bench.take_all(choices(work, device))
    return bench.figures()


class _Bench:
    """Inputs, truth and what was found so far."""

    def __init__(self, work: HeadWork, device: str) -> None:
        self.work, self.device = work, torch.device(device)
        self.began = perf_counter()
        self.cuda = self.device.type == "cuda"
        shape = work.shape
        most = max(shape.tokens, work.forward_tokens)
        dtype = getattr(torch, work.dtype.value)
        wanted = ProblemShape(tokens=most, hidden=shape.hidden, vocabulary=shape.vocab)
        self.problem = with_policy(random_problem(wanted, device=device, dtype=dtype))
        generator = torch.Generator().manual_seed(0)
        self.rows_S = torch.randperm(shape.tokens, generator=generator)[: work.sample].sort().values
        self.sample = part(self.problem, self.rows_S.to(self.device))
        self.truths: dict[Task, tuple[Results, dict[str, float]]] = {}
        self.found: list[Record] = []
        self.seen: set[str] = set()
        self.left_out: list[str] = []

    def take_all(self, offered: Iterable[ImplementationChoice]) -> None:
        """Measures what there is time for, each implementation once."""
        for choice in offered:
            if choice.name in self.seen:
                continue
            self.seen.add(choice.name)
            if not (choice.wanted or choice.missing or self._has_time(choice)):
                self.left_out.append(choice.name)
            elif choice.further is not None:
                self.take_all(choice.further())
            else:
                self._take(choice)

    def _take(self, choice: ImplementationChoice) -> None:
        """Check one implementation and take its peaks."""
        record = Record(choice=choice, missing=choice.missing)
        if choice.head is None:
            self.found.append(record)
            return
        try:
            self._check(choice, choice.head, record)
            record.tokens = self._sizes(choice, record, self.work.shape.tokens, both=True)
            if choice.wanted and self.work.forward_tokens != self.work.shape.tokens:
                record.forward_tokens = self._sizes(choice, record, self.work.forward_tokens, both=False)
        except torch.OutOfMemoryError:
            record.missing = "out of memory"
        except Exception as error:
            record.missing = in_a_line(error)
        self._give_back()
        self.found.append(record)

    def _has_time(self, choice: ImplementationChoice) -> bool:
        needed = ready_seconds(choice, self.device.type)
        return perf_counter() - self.began + needed < _FIRST_CALLS * self.work.seconds

    def _truth(self, task: Task) -> tuple[Results, dict[str, float]]:
        """What the sample's results are, and the errors of a head whose logits torch rounds."""
        if task not in self.truths:
            exact = exact_results(self.sample, task)
            self.truths[task] = exact, rounded_results(self.sample, task).errors(exact)
        return self.truths[task]

    def _check(self, choice: ImplementationChoice, head: Head, record: Record) -> None:
        """The sample by itself, gradient of the weight and all.

        Not of an entropy that torch would compile once more for so few rows, and then again for all of them:
        its rows among all are compared, and autograd makes both gradients from the same logits' gradient.
        """
        exact, rounded = self._truth(head.task)
        record.limits = head.limits(self.sample, exact, rounded)
        if choice.way is None or not compiles(choice.way):
            record.errors = head.both(self.sample).errors(exact)

    def _sizes(self, choice: ImplementationChoice, record: Record, tokens: int, *, both: bool) -> list[int]:
        """The largest size that fits, and its half where that is not the wanted one."""
        taken: list[int] = []
        for size in smaller_sizes(tokens):
            if not self._has_room(choice, size, both=both):
                continue
            try:
                self._peaks(choice, record, size, both=both)
            except torch.OutOfMemoryError:
                self._give_back()
                continue
            taken.append(size)
            if size == tokens or len(taken) == 2:
                break
        if not taken:
            raise torch.OutOfMemoryError
        return taken

    def _has_room(self, choice: ImplementationChoice, tokens: int, *, both: bool) -> bool:
        if choice.way is None or not self.cuda:
            return True
        needed = choice.way.peak_bytes(replace(self.work.shape, tokens=tokens), training=both)
        return needed <= free_bytes(self.device)

    def _peaks(self, choice: ImplementationChoice, record: Record, tokens: int, *, both: bool) -> None:
        """At one size: the first call compiles, its results are compared; the second one's bytes count."""
        head = choice.head
        assert head is not None
        problem = part(self.problem, slice(tokens))
        if both:
            self._compare_rows(head, head.both(problem), tokens, record)
        if not self.cuda:
            return
        calls: dict[HeadPass, Call] = {HeadPass.FORWARD: partial(head.forward, problem)}
        if both:
            calls[HeadPass.BOTH] = partial(head.both, problem)
        for one_pass, call in calls.items():
            call()
            begun = perf_counter()
            record.peaks[tokens, one_pass] = peak_bytes(call)
            record.runs[tokens, one_pass] = TimedCall(call=call, seconds=perf_counter() - begun)

    def _compare_rows(self, head: Head, results: Results, tokens: int, record: Record) -> None:
        """The sample's rows among all: what does not add up over rows must be the same there."""
        exact, _ = self._truth(head.task)
        inside = self.rows_S < tokens
        rows = self.rows_S[inside].to(self.device)
        wanted, present = exact.present(), results.present()
        if head.task is Task.MEAN:  # over more rows, so each one's gradient is smaller
            present["d_hidden"] = present["d_hidden"] * (tokens / len(self.rows_S))
        for name in _OF_ROWS:
            if name in present and name in wanted and len(rows):
                error = relative_error(present[name][rows], wanted[name][inside.to(self.device)])
                record.errors[f"{name}_among_{tokens}"] = error
                record.limits[f"{name}_among_{tokens}"] = record.limits[name]

    def _time(self) -> None:
        """In turns: what is configured and proposed, and as many more as there is time for."""
        left = self.work.seconds - (perf_counter() - self.began)
        chosen: dict[str, Call] = {}
        runs: dict[str, TimedCall] = {}
        one_round = 0.0
        for index, record in enumerate(self.found):
            needed = sum(run.seconds for run in record.runs.values())
            if not record.choice.wanted and (one_round + needed) * (LEAST_ROUNDS + 1) > left:
                continue
            one_round += needed
            for (tokens, one_pass), run in record.runs.items():
                key = f"{index}: {one_pass.value} of {tokens}"
                chosen[key], runs[key] = run.call, run
        if not chosen:
            return
        rounds = max(LEAST_ROUNDS, min(self.work.rounds, int(left / one_round) - 1))
        with suppress(torch.OutOfMemoryError):  # others may have come to use the GPU: no times then
            for key, timed in interleaved(chosen, rounds).items():
                runs[key].timed = timed

    def figures(self) -> HeadFigures:
        """Times are taken now."""
        if self.cuda:
            self._time()
        shape = self.work.shape
        return HeadFigures(
            shape=HeadShape(tokens=shape.tokens, hidden=shape.hidden, vocab=shape.vocab),
            dtype=self.work.dtype.value,
            found=tuple(record.implementation() for record in self.found),
            left_out=tuple(self.left_out),
        )

    def _give_back(self) -> None:
        if self.cuda:
            torch.cuda.empty_cache()
