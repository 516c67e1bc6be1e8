"""What a document is made of. Its writers say how each part looks: on a terminal, in Markdown, in HTML.

Indents are steps of two columns and are seen on a terminal alone.
"""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from tuner.render.document.marks import Mark, Medium
from tuner.render.terminal import Terminal


class Heading(Struct, frozen=True, kw_only=True):
    """What the parts below are about."""

    text: str
    rank: int = 3  # on a page; a terminal shows all alike
    further: int = 0
    wraps: bool = True  # on a terminal; a path does not
    only: Medium | None = None


class Headline(Struct, frozen=True, kw_only=True):
    """The answer in a word: it begins the line of a terminal and ends the heading of a page."""

    word: str  # with its mark
    about: str
    text: str
    only: Medium | None = None


class Paragraph(Struct, frozen=True, kw_only=True):
    """Sentences, wrapped where lines have an end; a terminal begins a line at each end of a line in them."""

    text: str
    label: str = ""  # stands in front of it, in place of its indent
    level: int = 0
    further: int = 0  # steps that lines behind the first one stand deeper
    mark: Mark | None = None  # of all of it
    wraps: bool = True  # on a terminal; a line that other programs find by its form does not
    only: Medium | None = None


class Bullet(Struct, frozen=True, kw_only=True):
    """An item of a list."""

    text: str
    dash: bool = True  # on a terminal, where an item may be known by its line
    only: Medium | None = None


class Paste(Struct, frozen=True, kw_only=True):
    """Lines that can be copied whole: never wrapped."""

    lines: tuple[str, ...]
    level: int = 0
    mark: Mark | None = None
    only: Medium | None = None


class Entry(Struct, frozen=True, kw_only=True):
    """A thing with what is said of it: lines below one another, or one item of a list."""

    text: str
    further: int = 1
    details: tuple[Paragraph | Paste, ...] = ()
    only: Medium | None = None


class Facts(Struct, frozen=True, kw_only=True):
    """Names with what each is taken to be, or said to be, in two columns."""

    rows: tuple[tuple[str, str], ...]
    width: int  # of the names
    only: Medium | None = None


class Column(Struct, frozen=True, kw_only=True):
    """A column of a table."""

    title: str = ""
    group: str = ""  # what a terminal writes in place of the titles of neighbours that share it
    width: int = 0  # on a terminal; zero for one whose cells are as wide as their texts
    align: Literal["left", "right"] = "left"
    before: str = ""  # stands in front of a cell on a terminal: an arrow, a space
    below: bool = False  # on a terminal the lines of its cells stand below their row
    wraps: bool = True  # on a terminal, in a column without a width
    only: Medium | None = None


class Row(Struct, frozen=True, kw_only=True):
    """A row of a table, with a cell for each column."""

    cells: tuple[str, ...]
    mark: Mark | None = None
    note: str = ""  # behind the row on a terminal


class Table(Struct, frozen=True, kw_only=True):
    """Figures in columns."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    level: int = 1
    only: Medium | None = None


class Annotation(Struct, frozen=True, kw_only=True):
    """A line of a file with a piece of it pointed at, notes on it, and how the file would change.

    Nothing in it is wrapped, so that what stands below a character stays there.
    """

    number: str = ""  # of the line
    quote: tuple[str, str, str] | None = None  # before the piece, the piece, behind it; None: not shown
    pointer: Mark | None = None  # the mark of what points at the piece
    notes: tuple[str, ...] = ()
    change: tuple[str, ...] = ()  # lines that go, each behind "- ", and that come, each behind "+ "
    only: Medium | None = None


class Drawing(Struct, frozen=True, kw_only=True):
    """What is laid out for the width that there is: bars, sums that are written out.

    A page has it as a wide terminal does.
    """

    draw: Callable[[Terminal], str]
    only: Medium | None = None


Part = Heading | Headline | Paragraph | Bullet | Paste | Entry | Facts | Table | Annotation | Drawing


class AnswerDocument(Struct, frozen=True, kw_only=True):
    """An answer for a reader, in sections that a line without words parts."""

    sections: tuple[tuple[Part, ...], ...]

    def shown(self, medium: Medium) -> tuple[tuple[Part, ...], ...]:
        """The sections as far as a medium shows them."""
        sections = (
            tuple(part for part in section if part.only in (None, medium)) for section in self.sections
        )
        return tuple(section for section in sections if section)
