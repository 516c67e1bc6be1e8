"""Tables whose first row is translated and whose figures are not."""

from collections.abc import Iterable, Sequence

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes


def table(
    directive: SphinxDirective,
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    prose: Sequence[str] = (),
    widths: Sequence[int] = (),
) -> list[nodes.Node]:
    """A table of reStructuredText cells.

    Args:
        directive: who asks.
        header: the column titles.
        rows: one sequence of cells each.
        prose: titles of columns whose cells are sentences and therefore translated.
        widths: relative widths of the columns; empty leaves them to the browser.
    """
    lines = [".. list-table::", "   :header-rows: 1"]
    if widths:
        lines.append("   :widths: " + " ".join(str(width) for width in widths))
    lines.append("")
    for row in (header, *rows):
        lines += [f"   {'* ' if column == 0 else '  '}- {cell}" for column, cell in enumerate(row)]
    parsed = nested_parse_to_nodes(directive.state, StringList(lines, source="<table>"))
    translated = {header.index(title) for title in prose}
    for node in parsed:
        for body in node.findall(nodes.tbody):
            for row_node in body.findall(nodes.row):
                for column, entry in enumerate(row_node.findall(nodes.entry)):
                    if column not in translated:
                        for text in entry.findall(nodes.TextElement):
                            text["translatable"] = False
    return parsed
