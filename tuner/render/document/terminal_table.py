"""A table on a terminal: columns of fixed widths, and lines below a row for what is too long for one."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from tuner.render.columns import columns, left, right
from tuner.render.document.marks import ARROW, Mark, Medium, words
from tuner.render.document.painting import line, prose, styled
from tuner.render.document.parts import Column, Row, Table
from tuner.render.terminal import Terminal

_STEP = "  "


def table_lines(table: Table, terminal: Terminal) -> Iterator[str]:
    """The head, and the lines of each row."""
    margin = _STEP * table.level
    places = [
        place
        for place, column in enumerate(table.columns)
        if column.only in (None, Medium.TERMINAL) and not column.below
    ]
    shown = [table.columns[place] for place in places]
    for head in _heads(shown, terminal):
        yield styled((margin + head).rstrip(), Mark.DIM, terminal)
    for row in table.rows:
        cells = [row.cells[place] for place in places]
        if columns(words(cells[0], Medium.TERMINAL)) > shown[0].width:
            yield prose(cells[0], terminal, indent=margin + _STEP, first=margin)
            cells[0] = ""
        text = (margin + _cells(cells, shown, terminal)).rstrip()
        yield styled(text, row.mark, terminal) + words(row.note, Medium.TERMINAL)
        yield from _below(row, table, terminal)


def _heads(shown: Sequence[Column], terminal: Terminal) -> Iterator[str]:
    """The titles; groups stand above those of their columns, or in their place where these have none."""
    titles = [words(column.title, Medium.TERMINAL) for column in shown]
    if not any((*titles, *(column.group for column in shown))):
        return
    above = any(title and column.group for title, column in zip(titles, shown, strict=True))
    text = ""
    for group, members in groupby(shown, key=lambda column: column.group):
        of_group = list(members)
        if group or above:
            text += right(
                group, sum(column.width + columns(_before(column, terminal)) for column in of_group)
            )
        else:
            text += _cells([column.title for column in of_group], of_group, terminal)
    yield text
    if above:
        yield _cells([column.title for column in shown], shown, terminal)


def _cells(cells: Sequence[str], shown: Sequence[Column], terminal: Terminal) -> str:
    """The cells side by side; what stands in front of one is left out between two that say nothing."""
    row, previous = "", ""
    for cell, column in zip(cells, shown, strict=True):
        text = _text(cell, column, terminal)
        before = _before(column, terminal)
        row += before if cell or previous else " " * columns(before)
        row += right(text, column.width) if column.align == "right" else left(text, column.width)
        previous = cell
    return row


def _text(cell: str, column: Column, terminal: Terminal) -> str:
    """A cell; one of a column with a width has no colours, which would be counted."""
    if column.width:
        return words(cell, Medium.TERMINAL)
    return prose(cell, terminal) if column.wraps else line(cell, terminal)


def _before(column: Column, terminal: Terminal) -> str:
    return column.before.replace(ARROW, terminal.arrow)


def _below(row: Row, table: Table, terminal: Terminal) -> Iterator[str]:
    """The cells that stand below their row, dim, a line for each of their lines."""
    margin = _STEP * (table.level + 1)
    for column, cell in zip(table.columns, row.cells, strict=True):
        for text in cell.split("\n") if column.below and cell else ():
            yield styled(prose(text, terminal, indent=margin + _STEP, first=margin), Mark.DIM, terminal)
