"""``.. verl-rules:: D``: what verl says, and for each row the rules that hold it or the reason for none."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from rule_pages import catalogue
from tables import table

DATA = Path(__file__).parents[1] / "data" / "verl-rules.yaml"


@cache
def content() -> dict[str, Any]:
    """The reasons by name, and the rows."""
    loaded: dict[str, Any] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    return loaded


class VerlRules(SphinxDirective):
    """The rows whose ids begin with a letter."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One row per statement."""
        self.env.note_dependency(str(DATA))
        codes = {name: page.rule.code for name, page in catalogue().items()}
        rows = [_cells(row, codes) for row in content()["rows"] if row["id"].startswith(self.arguments[0])]
        header = ["Row", "Statement", "Where", "Holds", "Rules", "Why there is none"]
        prose = ["Statement", "Holds", "Why there is none"]
        return table(self, header, rows, prose=prose, widths=[6, 36, 18, 9, 13, 18])


def _cells(row: dict[str, Any], codes: dict[str, str]) -> list[str]:
    links = [f":doc:`{codes[name]} </rules/{name}>`" for name in row.get("rules", ())]
    reason = content()["reasons"][row["why"]] if "why" in row else "–"
    if "note" in row:
        reason = f"{reason} {row['note']}"
    return [row["id"], row["says"], row["where"], row["holds"], " ".join(links) or "–", reason]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("verl-rules", VerlRules)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
