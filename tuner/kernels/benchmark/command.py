"""The command behind ``python -m tuner.kernels.benchmark``, once it is known that it can run."""

import os
import shlex
import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import torch
from rich.console import Console

from tuner.kernels.benchmark.adversarial import CASES
from tuner.kernels.benchmark.comparison_heads import COMPARISON, DEFAULT_COMPARISON
from tuner.kernels.benchmark.hard_logits import measure_hard_logits
from tuner.kernels.benchmark.heads import HEADS, Head
from tuner.kernels.benchmark.machine import describe_machine
from tuner.kernels.benchmark.measure import ZERO_GRADIENT, measure, steps_of
from tuner.kernels.benchmark.outcome import BenchmarkSettings
from tuner.kernels.benchmark.problem import ProblemShape
from tuner.kernels.benchmark.progress import StepCounter
from tuner.kernels.benchmark.report import AdversarialReport, BenchmarkReport, ShapeReport
from tuner.kernels.benchmark.rivals import RIVAL_NAMES, Missing, find_rivals
from tuner.kernels.benchmark.tables import WIDTH, write_tables

_VARIABLES = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUTE_DSL_CACHE_DIR": "cute",
}


HARD_SHAPES = {
    "cuda": ("1024x896x151936", "1024x896x129920"),
    "cpu": ("33x16x203",),
}


@contextmanager
def cold_caches() -> Iterator[None]:
    """Within it Triton, torch's compiler and CuTe DSL find nothing that they compiled before."""
    before = {name: os.environ.get(name) for name in _VARIABLES}
    with TemporaryDirectory(prefix="tuner-benchmark-", ignore_cleanup_errors=True) as folder:
        for name, part in _VARIABLES.items():
            os.environ[name] = str(Path(folder, part))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


class BadArgumentError(Exception):
    """What is wrong with an argument."""


def known_names() -> list[str]:
    """The names of all heads that ``--heads`` takes."""
    return [*(head.name for head in (*HEADS, *COMPARISON)), *RIVAL_NAMES]


def chosen_heads(named: Sequence[str] | None, device: str, *, rivals: bool) -> list[Head | Missing]:
    """The heads to measure: those that are named, or all but the comparison's near duplicates.

    Raises:
        BadArgumentError: there is no head of a name.
    """
    if named and (unknown := sorted(set(named) - set(known_names()))):
        names = "; ".join(known_names())
        raise BadArgumentError(f"--heads: there is no {', '.join(unknown)}; there are: {names}")
    wanted = set(named or [*(head.name for head in HEADS), *DEFAULT_COMPARISON, *RIVAL_NAMES])
    chosen: list[Head | Missing] = [head for head in (*HEADS, *COMPARISON) if head.name in wanted]
    if rivals:
        chosen += find_rivals(device, tuple(name for name in RIVAL_NAMES if name in wanted))
    return chosen


def run(arguments: Namespace, command: Sequence[str]) -> int:
    """Measure, write, and return the exit status."""
    if arguments.heads == ["list"]:
        sys.stdout.write("\n".join(known_names()) + "\n")
        return 0
    try:
        shapes = [ProblemShape.parse(text) for text in arguments.shapes]
        heads = chosen_heads(arguments.heads, arguments.device, rivals=not arguments.no_rivals)
    except (BadArgumentError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    kind = "cpu" if arguments.device == "cpu" else "cuda"
    hard = [] if arguments.no_hard_logits else [ProblemShape.parse(text) for text in HARD_SHAPES[kind]]
    with cold_caches(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what torch says of the ways that are compared
        report = _measure(arguments, command, (shapes, hard), heads)
    text = report.model_dump_json(indent=1) + "\n"
    if arguments.format == "json":
        sys.stdout.write(text)
    else:
        write_tables(report, Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False))
    return 0 if report.ours_are_right else 1


def _measure(
    arguments: Namespace,
    command: Sequence[str],
    shapes: tuple[Sequence[ProblemShape], Sequence[ProblemShape]],
    heads: Sequence[Head | Missing],
) -> BenchmarkReport:
    """Measure all heads on ordinary shapes, then on those with hard logits."""
    ordinary, hard = shapes
    settings = BenchmarkSettings.of(arguments.device, arguments.rounds)
    present = [head for head in heads if isinstance(head, Head)]
    steps = StepCounter(len(ordinary) * steps_of(present) + len(hard) * len(CASES), Console(stderr=True))
    start = perf_counter()
    machine = describe_machine(settings.device)

    def report(reports: Sequence[ShapeReport], broken: Sequence[AdversarialReport] = ()) -> BenchmarkReport:
        """Report what is known so far, and write it each time: a kernel may end the process."""
        snapshot = BenchmarkReport(
            command=shlex.join(command),
            date=date.today().isoformat(),
            seconds=perf_counter() - start,
            dtype=str(settings.dtype).removeprefix("torch."),
            zero_gradient=ZERO_GRADIENT,
            machine=machine,
            shapes=tuple(reports),
            adversarial=tuple(broken),
        )
        if arguments.output:
            arguments.output.write_text(snapshot.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return snapshot

    reports: list[ShapeReport] = []
    with steps.shown():
        for shape in ordinary:
            reports.append(measure(shape, heads, settings, steps))
            report(reports)
            if settings.device.startswith("cuda"):
                torch.cuda.empty_cache()
        return report(reports, measure_hard_logits(hard, present, settings, steps))
