"""A table in HTML: heads of columns and of rows, and a frame in which it scrolls where it is wide."""

from collections.abc import Sequence
from html import escape

from tuner.render.document.html_marks import inline
from tuner.render.document.marks import Medium, marked
from tuner.render.document.parts import Column, Row, Table


def html_table(table: Table, *, name: str, caption: str) -> str:
    """The table.

    Args:
        table: what is written.
        name: what the table is called where it has no caption; empty where nothing is known.
        caption: its title as HTML, or empty.
    """
    shown = [
        (place, column) for place, column in enumerate(table.columns) if column.only in (None, Medium.PAGE)
    ]
    label = f' role="group" aria-label="{escape(name)}"' if name else ""
    lines = [
        # A reader without a mouse scrolls what can have the focus.
        f'<div class="wide" tabindex="0"{label}><table>',
        f"<caption>{caption}</caption>" if caption else "",
        f"<thead><tr>{''.join(_head(column) for _place, column in shown)}</tr></thead>",
        "<tbody>",
        *(_row(row, shown) for row in table.rows),
        "</tbody>",
        "</table></div>",
    ]
    return "\n".join(filter(None, lines))


def _head(column: Column) -> str:
    """A cell without a title is the head of nothing."""
    title = inline(column.title)
    return f'<th scope="col"{_class(column)}>{title}</th>' if title else "<td></td>"


def _row(row: Row, shown: Sequence[tuple[int, Column]]) -> str:
    """The first cell is the head of its row, and has the row's mark."""
    (first, column), *others = shown
    name = row.cells[first]
    head = _cell(name if row.mark is None else marked(name, row.mark))
    cells = "".join(f"<td{_class(column)}>{_cell(row.cells[place])}</td>" for place, column in others)
    return f'<tr><th scope="row"{_class(column)}>{head}</th>{cells}</tr>'


def _cell(text: str) -> str:
    return inline(text).replace("\n", "<br>")


def _class(column: Column) -> str:
    return ' class="right"' if column.align == "right" else ""
