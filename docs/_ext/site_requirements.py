"""``.. site-requirements::``: what the site is held to, and what holds each requirement, or why none does.

An argument names another file of requirements, such as those of the command line.
"""

from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table

DATA = Path(__file__).parents[1] / "data"
SITE = "site-requirements.yaml"
CHECK = "check-requirements.yaml"


def requirements(name: str = SITE) -> list[dict[str, Any]]:
    """The rows of a data file."""
    loaded: list[dict[str, Any]] = yaml.safe_load((DATA / name).read_text(encoding="utf-8"))
    return loaded


class SiteRequirements(SphinxDirective):
    """One row for each requirement."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The table, whose sentences are translated."""
        name = self.arguments[0] if self.arguments else SITE
        self.env.note_dependency(str(DATA / name))
        rows = [
            [
                row["says"],
                " ".join(f"``{name}``" for name in row.get("held_by", ())) or "–",
                row.get("why", "–"),
            ]
            for row in requirements(name)
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
