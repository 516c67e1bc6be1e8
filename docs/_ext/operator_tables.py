"""``.. operator-table:: products``: shares of the peak by shape, of every card that was measured."""

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner import shipped

_SIZES = {"products": "Hidden size", "attention": "Head size"}


class OperatorTable(SphinxDirective):
    """Forward and backward shares in percent, a column for each number of tokens."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {}

    def run(self) -> list[nodes.Node]:
        """One row for each size on each card."""
        operation = self.arguments[0]
        files = sorted((shipped.profiles() / "operators").glob("*.json"))
        for file in files:
            self.env.note_dependency(str(file))
        cards = [_content(file) for file in files]
        tokens = sorted({count for card in cards for count in card[operation]["tokens"]})
        rows = [row for card in cards for row in _rows(card, operation, tokens)]
        made = table(self, ["Card", _SIZES[operation], *(f"{count:,}" for count in tokens)], rows)
        for node in made:
            for title in node.findall(nodes.TextElement):
                if title.astext().replace(",", "").isdigit():
                    title["translatable"] = False
        return made


def _content(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def _rows(card: dict[str, Any], operation: str, tokens: list[int]) -> list[list[str]]:
    shares = card[operation]
    rows = []
    for index, size in enumerate(shares["sizes"]):
        columns = zip(shares["tokens"], shares["forward"][index], shares["backward"][index], strict=True)
        cells = {count: (forward, backward) for count, forward, backward in columns}
        name = f"``{card['gpu']}``, torch {card['versions']['torch']}, {card['date']}" if index == 0 else ""
        rows.append([name, f"{size:,}", *(_cell(cells.get(count)) for count in tokens)])
    return rows


def _cell(pair: tuple[float, float] | None) -> str:
    return "–" if pair is None else f"{100 * pair[0]:.0f} / {100 * pair[1]:.0f}"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("operator-table", OperatorTable)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
