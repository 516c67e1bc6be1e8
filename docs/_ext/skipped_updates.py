"""``.. skipped-updates:: FILE``: recorded updates with and without the responses that have no advantage.

The file is one that ``measure.zero_advantage`` wrote, in ``validation/data``.
"""

import json
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table

_FOLDER = Path(__file__).resolve().parents[1] / "validation/data"


def rows(updates: list[dict[str, Any]]) -> list[list[str]]:
    """For each share without an advantage and each way to leave it out, the median of its updates."""

    def case(update: dict[str, Any]) -> tuple[float, str]:
        return update["zero_advantage_share"], update["skip"] or ""

    found = []
    for (share, mode), same in groupby(sorted(updates, key=case), key=case):
        those = list(same)
        seconds = median(update["seconds"] for update in those)
        found.append(
            [
                f"{share:.0%}".replace("%", " %"),
                f"``{mode}``" if mode else "–",
                str(len(those[0]["grad_norms"])),
                f"{those[0]['run_tokens']:,}",
                f"{seconds:.2f}\N{NO-BREAK SPACE}s",
            ]
        )
    return found


class SkippedUpdates(SphinxDirective):
    """The table of a file."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row for each share and mode."""
        path = _FOLDER / self.arguments[0]
        self.env.note_dependency(str(path))
        document = json.loads(path.read_text(encoding="utf-8"))
        header = ("Responses without advantage", "Skip", "Optimizer steps", "Tokens that run", "Update")
        return table(self, header, rows(document["updates"]))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("skipped-updates", SkippedUpdates)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
