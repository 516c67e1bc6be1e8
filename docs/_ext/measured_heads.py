"""The recorded benchmark of the output heads at one size, which a figure and the text name.

The names of heads are those that the benchmark's ``--heads`` takes.
"""

from functools import cache
from pathlib import Path

from tuner.kernels.benchmark.report import BenchmarkReport, HeadResult, ShapeReport

#: The report with every head in it.
_REPORT = Path(__file__).resolve().parents[1] / "validation/data/output-head-h200.json"
#: What is left out of the line that says where it was measured.
_NOT_NAMED = ("python", "tuner", "nvidia-cutlass-dsl")


@cache
def report() -> BenchmarkReport:
    """The one that is recorded on an H200."""
    return BenchmarkReport.model_validate_json(_REPORT.read_text(encoding="utf-8"))


def shape(tokens: int, *, hidden: int, vocabulary: int) -> ShapeReport:
    """All heads at one size."""
    (found,) = (
        each
        for each in report().shapes
        if (each.tokens, each.hidden, each.vocabulary) == (tokens, hidden, vocabulary)
    )
    return found


def head(where: ShapeReport, name: str) -> HeadResult:
    """One head at a size."""
    (found,) = (each for each in where.heads if each.name == name)
    return found


def measured_on() -> str:
    """The card, the versions and the date."""
    machine = report().machine
    versions = (f"{name} {version}" for name, version in machine.versions.items() if name not in _NOT_NAMED)
    return f"{machine.device}, {', '.join(versions)}, {report().date}"
