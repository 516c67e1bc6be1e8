"""``.. older-guides::``: what the guides before this one say, sentence by sentence, and what holds."""

from pathlib import Path

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table

_FILE = "data/older-guides.yaml"
_OUTCOMES = ("kept", "corrected", "obsolete")


class OlderGuides(SphinxDirective):
    """One row for each sentence, in the order of the texts."""

    def run(self) -> list[nodes.Node]:
        """The table, whose sentences are translated."""
        path = Path(self.env.srcdir, _FILE)
        self.env.note_dependency(str(path))
        claims = yaml.safe_load(path.read_text(encoding="utf-8"))
        for claim in claims:
            if claim["outcome"] not in _OUTCOMES:
                raise self.error(f"{claim['says']}: {claim['outcome']!r} is none of {', '.join(_OUTCOMES)}")
        rows = [
            [
                str(number),
                ", ".join(claim["texts"]),
                claim["says"],
                claim["outcome"],
                claim["holds"],
                f":doc:`{claim['chapter']}`",
            ]
            for number, claim in enumerate(claims, start=1)
        ]
        header = ["Number", "Text", "It says", "Today", "What holds", "Chapter"]
        prose = ["It says", "Today", "What holds"]
        return table(self, header, rows, prose=prose, widths=[5, 7, 28, 11, 34, 15])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("older-guides", OlderGuides)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
