"""``.. accuracy:: validation/data/file.json``: predictions beside measured peaks, computed while building."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

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
        header = ["Compared", "Passes", "Median error", "95th percentile", "Largest error"]
        details = ["Model", "Pass", "Tokens", "Settings", "Predicted, GiB", "Measured, GiB", "Error"]
        widths = [14, 10, 8, 32, 12, 12, 12]
        return [
            *table(self, header, summary, prose=["Compared"]),
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


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("accuracy", Accuracy)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
