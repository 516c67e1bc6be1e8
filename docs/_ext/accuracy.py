"""``.. accuracy::`` and ``.. megatron-accuracy::``: how far predictions are from measured peaks.

They are computed while the pages are built, from files of ``validation/data``. Every single measurement
stands in the picture of them, or folded below the summary.
"""

from collections.abc import Callable, Iterable, Sequence
from math import ceil
from pathlib import Path
from statistics import median

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from figures.accuracy_scatter import DATA, comparisons, files, recording
from figures.seconds_scatter import timed
from folded import folded
from megatron_steps import Stage, read_stages, steps
from tables import table
from tuner.accuracy import summarise
from tuner.units import GIB

Overrides = Sequence[str]
#: What counts as close: the share of measurements whose error is no larger is told.
CLOSE = 0.02
_FOLDER = "/validation/data"
_ERRORS = ("Median error", "95th percentile", "Largest error", "Within 2 %")


class Accuracy(SphinxDirective):
    """A row for each recording that is named, and one for all of them."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """The errors of the peaks, and those of what a pass adds."""
        names = list(files(self.arguments[0].split()))
        for name in names:
            self.env.note_dependency(str(DATA / name))
        recordings = [(recording(name), [name]) for name in names]
        if len(names) > 1:
            recordings.append(("all of them", names))
        peaks, added = [], []
        for title, which in recordings:
            rows = comparisons(which)
            reserved = summarise(rows).reserved
            link = f":download:`{title} <{_FOLDER}/{which[0]}>`" if len(which) == 1 else title
            peaks.append(
                [
                    link,
                    str(len(rows)),
                    *errors(row.error for row in rows),
                    f"{reserved.inside} / {reserved.recorded}",
                ]
            )
            added.append([link, str(len(rows)), *errors(row.added_error for row in rows)])
        start = ["Recording", "Measurements", *_ERRORS]
        return [
            *table(self, [*start, "Reserved inside"], peaks, prose=["Recording"]),
            folded(
                self,
                "The same for what each forward pass or update adds to what was allocated before it",
                table(self, start, added, prose=["Recording"]),
            ),
        ]


class MegatronAccuracy(SphinxDirective):
    """A summary of all recorded steps of Megatron-Core, and one row for each, folded."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Both tables."""
        path = Path(self.env.srcdir, self.arguments[0])
        self.env.note_dependency(str(path))
        measured = list(steps(read_stages(path)))
        compared = [stage.compare(step) for stage, step in measured]
        count = str(len(measured))
        summary = [
            [
                "peak of forward and backward pass",
                count,
                *errors(comparison.error for comparison in compared),
            ],
            ["what the step adds", count, *errors(comparison.added_error for comparison in compared)],
        ]
        rows = [
            [
                *_grid(stage),
                f"{step['micro_batches']} × {step['tokens']:,}",
                f"{comparison.predicted / GIB:.2f}",
                f"{comparison.measured / GIB:.2f}",
                f"{comparison.error:+.1%}",
            ]
            for (stage, step), comparison in zip(measured, compared, strict=True)
        ]
        details = ["Tensor", "Pipeline", "Stage", "Recomputed", "Tokens"]
        sizes = ["Predicted, GiB", "Measured, GiB", "Error"]
        return [
            *table(self, ["Compared", "Steps", *_ERRORS], summary, prose=["Compared"]),
            folded(self, "Every recorded step", table(self, [*details, *sizes], rows)),
        ]


def _grid(stage: Stage) -> list[str]:
    measured = stage.measured
    recomputed = measured["recompute"]
    return [
        *(str(measured[key]) for key in ("tensor", "pipeline", "stage")),
        "–" if recomputed is None else f"``{recomputed}``",
    ]


def errors(signed: Iterable[float]) -> list[str]:
    """Median, 95th percentile and largest of errors without their signs, and the share that is close."""
    ranked = sorted(abs(error) for error in signed)
    p95 = ranked[ceil(len(ranked) * 95 / 100) - 1]
    shares = [f"{error:.2%}" for error in (median(ranked), p95, ranked[-1])]
    return [*shares, f"{close_share(ranked):.0%}"]


def close_share(signed: Sequence[float]) -> float:
    """The share of errors that are no larger than what counts as close."""
    return sum(abs(error) <= CLOSE for error in signed) / len(signed)


def _error(which: str, *names: str | Overrides) -> str:
    """Of predicted peaks against measured ones: ``median``, ``worst`` or the ``close`` share, of files."""
    rows = comparisons([str(name) for name in names[:-1]])
    if which == "close":
        return f"{close_share([row.error for row in rows]):.0%}".replace("%", " %")
    return f"{getattr(summarise(rows).peak, which):.2%}".replace("%", " %")


def _passes(*names: str | Overrides) -> str:
    """How many there are in files of ``validation/data``."""
    return f"{len(comparisons([str(name) for name in names[:-1]])):,}"


def _timed(which: str, overrides: Overrides) -> str:
    """Of predicted times against measured ones: how many, the ``median`` or the ``worst`` error."""
    sizes = [abs(point.error) for point in timed()]
    shown = {"count": str(len(sizes)), "median": f"{median(sizes):.0%}", "worst": f"{max(sizes):.0%}"}
    return shown[which].replace("%", " %")


#: As in ``computed``: a name and how many words follow it.
QUANTITIES: dict[str, Callable[..., str]] = {
    "error": _error,  # median, worst or close; names of files of measured peaks, or all
    "passes": _passes,  # names of files of measured peaks, or all
    "timed": _timed,  # count, median or worst: of recorded runs
}


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives."""
    app.add_directive("accuracy", Accuracy)
    app.add_directive("megatron-accuracy", MegatronAccuracy)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
