"""``.. site-requirements::``: what the site is held to, and what holds each requirement, or why none does."""

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table

DATA = Path(__file__).parents[1] / "data" / "site-requirements.yaml"


def requirements() -> list[dict[str, Any]]:
    """The rows of the data file."""
    loaded: list[dict[str, Any]] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return loaded


class SiteRequirements(SphinxDirective):
    """One row for each requirement."""

    def run(self) -> list[nodes.Node]:
        """The table, whose sentences are translated."""
        self.env.note_dependency(str(DATA))
        rows = [
            [
                row["says"],
                " ".join(f"``{name}``" for name in row.get("held_by", ())) or "–",
                row.get("why", "–"),
            ]
            for row in requirements()
        ]
        header = ["Requirement", "Held by", "Why by none"]
        found = table(self, header, rows, prose=["Requirement", "Why by none"], widths=[36, 44, 20])
        for node in found:
            node["classes"].append("breaking")
        return found


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("site-requirements", SiteRequirements)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
