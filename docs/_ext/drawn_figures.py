"""``.. drawn:: NAME``: a picture of the guide, drawn while the page is built, in the page's language.

The content is the caption, which says what one decides by the picture. The numbers of the picture stand
folded below it.
"""

from html import escape
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec
from sphinx.writers.html5 import HTML5Translator

from figures import Drawing, figure
from worded import Worded

_FOLDED = "The numbers"


class DrawnPicture(Worded):
    """A picture whose texts are translated before it is drawn."""


class DrawnFigure(SphinxDirective):
    """A picture with its caption; ``:with:`` gives it arguments, one a line, such as overrides of the job."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[OptionSpec] = {
        "with": directives.unchanged_required,
        "alt": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """A figure whose legend is the content."""
        name = self.arguments[0]
        words = {**figure(name).WORDS, "alt": self.options["alt"], "folded": _FOLDED}
        arguments = tuple(self.options.get("with", "").split())
        picture = DrawnPicture(name=name, words=dict(words), original=words, arguments=arguments)
        self.set_source_info(picture)
        whole = nodes.figure(classes=["drawn"])
        whole += picture
        caption = self.parse_content_to_nodes()
        if len(caption) != 1 or not isinstance(caption[0], nodes.paragraph):
            raise self.error("a drawn figure has one paragraph as its caption")
        whole += nodes.caption(caption[0].rawsource, "", *caption[0].children)
        self.set_source_info(whole[-1])
        return [whole]


def _visit(writer: HTML5Translator, node: DrawnPicture) -> None:
    drawing = figure(node["name"]).draw(node["words"], node["arguments"])
    label = escape(node["words"]["alt"])
    svg = drawing.svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
    writer.body.append(f'<div class="drawing">{svg}</div>\n{_table(drawing, node["words"]["folded"])}')
    raise nodes.SkipNode


def _table(drawing: Drawing, folded: str) -> str:
    """The numbers of a picture, to be unfolded."""
    header = "".join(f"<th>{escape(cell)}</th>" for cell in drawing.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in drawing.rows
    )
    table = f'<table class="docutils"><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>'
    return f"<details><summary>{escape(folded)}</summary>{table}</details>\n"


def _skip(writer: object, node: DrawnPicture) -> None:
    raise nodes.SkipNode


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive and the picture."""
    app.add_node(DrawnPicture, html=(_visit, None), text=(_skip, None), gettext=(_skip, None))
    app.add_directive("drawn", DrawnFigure)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
