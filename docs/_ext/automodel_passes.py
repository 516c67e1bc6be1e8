"""``.. automodel-passes:: FILE``: passes of NeMo-RL under Automodel, measured beside what the model says."""

import json
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from recorded_updates import DATA
from tables import table
from tests.measure.automodel.predicted import predicted_bytes
from tuner.units import GIB

_PASSES = {"update": "update_actor", "log_prob": "old_log_prob"}


class AutomodelPasses(SphinxDirective):
    """The table of a file in ``validation/data``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row for each pass."""
        path = DATA / self.arguments[0]
        self.env.note_dependency(str(path))
        document = json.loads(path.read_text(encoding="utf-8"))
        header = ["Model", "Pass", "Tokens", "Sequences", "Recomputed", "Predicted", "Measured", "Error"]
        rows = [_row(measured) for measured in document["passes"]]
        return table(self, header, rows, prose=[], widths=[18, 16, 10, 12, 12, 12, 12, 8])


def _row(measured: dict[str, Any]) -> list[str]:
    predicted, peak = predicted_bytes(measured), measured["peak_bytes"]
    return [
        measured["model"],
        _PASSES[measured["pass"]],
        f"{measured['tokens']:,}",
        str(measured["sequences"]),
        str(measured["recompute"]),
        f"{predicted / GIB:.2f} GiB",
        f"{peak / GIB:.2f} GiB",
        f"{predicted / peak - 1:+.1%}",
    ]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("automodel-passes", AutomodelPasses)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
