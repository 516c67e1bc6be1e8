"""``.. accuracy::`` and ``.. megatron-accuracy::``: predictions beside measured peaks.

They are computed while the pages are built. Both take a file of ``validation/data``.
"""

from collections.abc import Iterable
from math import ceil
from pathlib import Path
from statistics import median

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from megatron_steps import Stage, read_stages, steps
from tables import table
from tuner.accuracy import Comparison, Spread, compare, read_measured, special_settings, summarise
from tuner.units import GIB


class Accuracy(SphinxDirective):
    """A summary of all recorded passes, and one row for each."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Both tables."""
        path = Path(self.env.srcdir, self.arguments[0])
        self.env.note_dependency(str(path))
        rows = [compare(case) for case in read_measured(path).cases]
        errors = summarise(rows)
        summary = [
            ["peak of a pass", str(errors.cases), *_spread(errors.peak)],
            ["what the pass adds", str(errors.cases), *_spread(errors.added)],
        ]
        reserved = errors.reserved
        inside = ["reserved peaks inside the interval", str(reserved.recorded), str(reserved.inside)]
        header = ["Compared", "Passes", "Median error", "95th percentile", "Largest error"]
        details = ["Model", "Pass", "Tokens", "Settings", "Predicted, GiB", "Measured, GiB", "Error"]
        widths = [14, 10, 8, 32, 12, 12, 12]
        within = ["Compared", "Passes", "Inside", "Share"]
        return [
            *table(self, header, summary, prose=["Compared"]),
            *table(self, within, [[*inside, f"{reserved.share:.1%}"]], prose=["Compared"]),
            *table(self, details, [_row(row) for row in rows], widths=widths),
        ]


def _spread(errors: Spread) -> list[str]:
    return [f"{error:.1%}" for error in (errors.median, errors.p95, errors.worst)]


def _row(row: Comparison) -> list[str]:
    return [
        row.case.model.rsplit("/", 1)[-1],
        f"``{row.case.pass_}``",
        f"{row.case.tokens:,}",
        " ".join(f"``{setting}``" for setting in special_settings(row.case)) or "–",
        f"{row.predicted_peak / GIB:.2f}",
        f"{row.measured_peak / GIB:.2f}",
        f"{row.error:+.1%}",
    ]


class MegatronAccuracy(SphinxDirective):
    """A summary of all recorded steps of Megatron-Core, and one row for each."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Both tables."""
        path = Path(self.env.srcdir, self.arguments[0])
        self.env.note_dependency(str(path))
        measured = list(steps(read_stages(path)))
        compared = [stage.compare(step) for stage, step in measured]
        summary = [
            [
                "peak of forward and backward pass",
                str(len(measured)),
                *_errors(comparison.error for comparison in compared),
            ],
            [
                "what the step adds",
                str(len(measured)),
                *_errors(comparison.added_error for comparison in compared),
            ],
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
        header = ["Compared", "Steps", "Median error", "95th percentile", "Largest error"]
        details = ["Tensor", "Pipeline", "Stage", "Recomputed", "Tokens"]
        sizes = ["Predicted, GiB", "Measured, GiB", "Error"]
        return [
            *table(self, header, summary, prose=["Compared"]),
            *table(self, [*details, *sizes], rows),
        ]


def _grid(stage: Stage) -> list[str]:
    measured = stage.measured
    recomputed = measured["recompute"]
    return [
        *(str(measured[key]) for key in ("tensor", "pipeline", "stage")),
        "–" if recomputed is None else f"``{recomputed}``",
    ]


def _errors(errors: Iterable[float]) -> list[str]:
    ranked = sorted(abs(error) for error in errors)
    p95 = ranked[ceil(len(ranked) * 95 / 100) - 1]
    return [f"{error:.1%}" for error in (median(ranked), p95, ranked[-1])]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("accuracy", Accuracy)
    app.add_directive("megatron-accuracy", MegatronAccuracy)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
