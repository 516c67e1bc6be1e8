"""``.. measured-tiles::``: which tile was fastest on each card and shape, as the kernels choose it."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table

FILE = Path(__file__).resolve().parents[2] / "tuner/kernels/measured_tiles.json"
HEADER = ("Shape", "Pass", "Fastest", "ms", "Slowest", "ms")


def rows_of(record: dict[str, Any]) -> list[list[str]]:
    """A row for each shape and pass of a card: the fastest and the slowest tile with their milliseconds."""
    return [
        [
            "x".join(str(size) for size in shape["sizes"]),
            work,
            *_cells(candidates[0]),
            *_cells(candidates[-1]),
        ]
        for shape in record["shapes"]
        for work, candidates in shape["passes"].items()
    ]


def _cells(candidate: dict[str, Any]) -> list[str]:
    rows, columns, depth, stages, _, group = candidate["tile"]
    tile = f"{candidate['path']} {rows}x{columns}x{depth}, {stages} stages, groups of {group}"
    return [f"``{tile}``", f"{candidate['milliseconds']:.2f}"]


class MeasuredTiles(SphinxDirective):
    """A line that says of which card, then its table."""

    def run(self) -> list[nodes.Node]:
        """Every card of the table."""
        self.env.note_dependency(str(FILE))
        made: list[nodes.Node] = []
        for record in json.loads(FILE.read_text(encoding="utf-8"))["cards"]:
            versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
            fact = f"{record['device']}, driver {record['driver']}, {versions}, {record['measured']}"
            paragraph = nodes.paragraph("", "", nodes.literal(fact, fact))
            paragraph["translatable"] = False
            made += [paragraph, *table(self, HEADER, rows_of(record), prose=["Pass"])]
        return made or [nodes.paragraph("", "No card has been measured yet.")]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("measured-tiles", MeasuredTiles)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
