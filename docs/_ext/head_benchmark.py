"""``.. head-benchmark::``: the recorded reports of ``python -m tuner.kernels.benchmark`` as tables.

``:show:`` is ``speed``, ``accuracy`` or ``hard-logits``. All reports ``validation/data/output-head-*.json``
are shown, each shape in a table of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from math import isnan
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec

from tables import table
from tuner.kernels.benchmark.report import (
    AdversarialReport,
    BenchmarkReport,
    HeadResult,
    HeadStatus,
    ShapeReport,
)
from tuner.units import GIB

_NONE = "–"
_MEASURED = (HeadStatus.RIGHT, HeadStatus.WRONG)

SPEED = (
    "Head",
    "Computes",
    "Forward, ms",
    "Both, ms",
    "Forward, GiB",
    "Both, GiB",
    "Share of its products",
    "Over verl's Triton",
)
ACCURACY = (
    "Head",
    "Log-probability",
    "Entropy",
    "Hidden states' gradient",
    "Weight's gradient",
    "Numbers",
    "First calls, s",
)
HARD = (
    "Head",
    "Log-probability",
    "Entropy",
    "Hidden states' gradient",
    "Weight's gradient",
    "Wrong with logits",
)
_ERRORS = ("log_probs", "entropy", "d_hidden", "d_weight")

Rows = list[list[str]]


def read_reports(folder: Path) -> list[BenchmarkReport]:
    """The recorded reports, in the order of their names."""
    paths = sorted(folder.glob("output-head-*.json"), key=lambda path: path.stem)
    return [BenchmarkReport.model_validate_json(path.read_text(encoding="utf-8")) for path in paths]


def speed_rows(shape: ShapeReport) -> Rows:
    """A row for each head whose numbers are right: its times, its memory and how they compare."""
    return [_speed_row(head) for head in shape.heads if head.speed is not None]


def _speed_row(head: HeadResult) -> list[str]:
    speed, peak = head.speed, head.peak_bytes
    if speed is None:
        raise ValueError(f"{head.name} has no speed")
    over = speed.over_verl_triton
    return [
        f"``{head.name}``",
        head.task.value,
        f"{speed.forward.median_ms:.2f}",
        f"{speed.both.median_ms:.2f}",
        f"{peak.forward / GIB:.2f}" if peak else _NONE,
        f"{peak.both / GIB:.2f}" if peak else _NONE,
        f"{speed.share_of_products.both:.0%}",
        f"{over.both:.2f}×" if over else _NONE,
    ]


def accuracy_rows(shape: ShapeReport) -> Rows:
    """A row for each head that ran: its errors, its verdict and the time of its first call."""
    return [
        [
            f"``{head.name}``",
            *(_number(head.errors.get(name)) for name in _ERRORS),
            head.status.value,
            f"{head.first_call_s.forward + head.first_call_s.both:.1f}" if head.first_call_s else _NONE,
        ]
        for head in shape.heads
        if head.status in _MEASURED
    ]


def hard_rows(reports: Sequence[AdversarialReport]) -> Rows:
    """A row for each head: its worst errors over all cases, and the cases in which it is wrong."""
    rows: Rows = []
    for name in dict.fromkeys(report.head for report in reports):
        cases = [report for report in reports if report.head == name]
        wrong = [f"``{report.case}``" for report in cases if report.status is not HeadStatus.RIGHT]
        rows.append(
            [f"``{name}``", *(_number(_worst(cases, error)) for error in _ERRORS), ", ".join(wrong) or _NONE]
        )
    return rows


def _worst(cases: Sequence[AdversarialReport], name: str) -> float | None:
    errors = [report.errors[name] for report in cases if name in report.errors]
    return max(errors, key=lambda error: (isnan(error), error)) if errors else None


def _number(value: float | None) -> str:
    return _NONE if value is None else "NaN" if isnan(value) else f"{value:.1e}"


class HeadBenchmark(SphinxDirective):
    """One kind of table, of every report."""

    option_spec: ClassVar[OptionSpec] = {
        "show": lambda text: directives.choice(text, ("speed", "accuracy", "hard-logits"))
    }

    def run(self) -> list[nodes.Node]:
        """A line that says where and of what, then the table."""
        folder = Path(self.env.srcdir, "validation", "data")
        for path in folder.glob("output-head-*.json"):
            self.env.note_dependency(str(path))
        show = {"speed": self._speed, "accuracy": self._accuracy, "hard-logits": self._hard}
        made: Callable[[BenchmarkReport], Iterator[nodes.Node]] = show[self.options["show"]]
        tables = [node for report in read_reports(folder) for node in made(report)]
        return tables or [nodes.paragraph("", "No report has been recorded yet.")]

    def _speed(self, report: BenchmarkReport) -> Iterator[nodes.Node]:
        machine = report.machine
        versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items())
        yield _fact(
            f"{report.command}  # {report.date}, {machine.device}, driver {machine.driver}, {versions}"
        )
        for shape in report.shapes:
            yield _fact(f"{machine.device}, {shape.name}, {report.dtype}")
            yield from table(self, SPEED, speed_rows(shape), prose=["Computes"])

    def _accuracy(self, report: BenchmarkReport) -> Iterator[nodes.Node]:
        for shape in report.shapes:
            yield _fact(f"{report.machine.device}, {shape.name}, {report.dtype}")
            yield from table(self, ACCURACY, accuracy_rows(shape), prose=["Numbers"])

    def _hard(self, report: BenchmarkReport) -> Iterator[nodes.Node]:
        for vocabulary in dict.fromkeys(case.vocabulary for case in report.adversarial):
            yield _fact(f"{report.machine.device}, V = {vocabulary}, {report.dtype}")
            rows = hard_rows([case for case in report.adversarial if case.vocabulary == vocabulary])
            yield from table(self, HARD, rows)


def _fact(text: str) -> nodes.paragraph:
    """A line of names and numbers, which is the same in every language."""
    paragraph = nodes.paragraph("", "", nodes.literal(text, text))
    paragraph["translatable"] = False
    return paragraph


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("head-benchmark", HeadBenchmark)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
