"""``.. older-guides::`` and ``.. older-texts::``: what the guides before this one say, and what holds.

The first makes a row of each claim, with the paragraph of the guide that answers it. The second numbers the
sentences of the texts, so that each of them can be found in a row.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from folded import folded
from tables import table

CLAIMS, TEXTS = "data/older-guides.yaml", "data/older-texts.yaml"
OUTCOMES = ("kept", "corrected", "obsolete")
_MARKUP = str.maketrans({character: f"\\{character}" for character in "*`|_\\"})
_logger = logging.getLogger(__name__)


def rows_of(claims: Sequence[Mapping[str, str]]) -> dict[str, int]:
    """For the number of each sentence, such as ``A9``, the row that it stands in, from 1."""
    return {name: row for row, claim in enumerate(claims, start=1) for name in claim["sentences"].split()}


class Answered(nodes.General, nodes.Element):  # type: ignore[misc]
    """Stands for a link to a paragraph until all labels are known."""


class _Directive(SphinxDirective):
    """Shared by both: the files."""

    def read(self, name: str) -> Any:
        path = Path(self.env.srcdir, name)
        self.env.note_dependency(str(path))
        return yaml.safe_load(path.read_text(encoding="utf-8"))


class OlderGuides(_Directive):
    """One row for each claim, in the order of the texts."""

    def run(self) -> list[nodes.Node]:
        """The table, whose sentences are translated, with links that are made later."""
        claims = self.read(CLAIMS)
        for claim in claims:
            if claim["outcome"] not in OUTCOMES:
                raise self.error(f"{claim['says']}: {claim['outcome']!r} is none of {', '.join(OUTCOMES)}")
        rows = [
            [str(row), claim["sentences"], claim["says"], claim["outcome"], claim["holds"], ""]
            for row, claim in enumerate(claims, start=1)
        ]
        header = ["Row", "Sentences", "It says", "Today", "What holds", "Answered in"]
        prose = ["It says", "Today", "What holds"]
        made = table(self, header, rows, prose=prose, widths=[5, 9, 27, 11, 33, 15])
        (whole,) = (found for node in made for found in node.findall(nodes.table))
        whole["classes"].append("numbered")
        (body,) = whole.findall(nodes.tbody)
        for row, claim in zip(body.findall(nodes.row), claims, strict=True):
            row[-1] += nodes.paragraph("", "", Answered(label=claim["answered"]), translatable=False)
        return made


class OlderTexts(_Directive):
    """Each text with its sentences, folded."""

    def run(self) -> list[nodes.Node]:
        """A table for each text: the number, how the sentence begins, its row or why it has none."""
        rows = rows_of(self.read(CLAIMS))
        return [
            folded(self, f"{letter}: {text['title']}", self._sentences(letter, text, rows))
            for letter, text in self.read(TEXTS).items()
        ]

    def _sentences(self, letter: str, text: Mapping[str, Any], rows: Mapping[str, int]) -> list[nodes.Node]:
        asides = {number: why for why, numbers in text["aside"].items() for number in numbers}
        lines = [
            [f"{letter}{number}", f"{begins.translate(_MARKUP)} …", row, ""]
            if (row := str(rows.get(f"{letter}{number}", "")))
            else [f"{letter}{number}", f"{begins.translate(_MARKUP)} …", "–", asides[number]]
            for number, begins in enumerate(text["sentences"], start=1)
        ]
        header = ["Sentence", "It begins", "Row", "Why none"]
        return table(self, header, lines, prose=["Why none"], widths=[10, 50, 10, 30])


def _link(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Put links in place: the title of a chapter, leading to the paragraph with the label."""
    labels = app.env.domains.standard_domain.anonlabels
    for node in list(doctree.findall(Answered)):
        name = node["label"]
        if name not in labels:
            _logger.warning("no paragraph has the label %s", name, location=page)
            node.parent.remove(node)
            continue
        chapter, identifier = labels[name]
        target = f"{app.builder.get_relative_uri(page, chapter)}#{identifier}"
        title = app.env.titles[chapter].astext()
        node.replace_self(nodes.reference("", title, internal=True, refuri=target))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives, and the links that they leave."""
    app.add_node(Answered)
    app.add_directive("older-guides", OlderGuides)
    app.add_directive("older-texts", OlderTexts)
    app.connect("doctree-resolved", _link)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
