"""Writes a document for a terminal: wrapped to its width, in its colours and its characters."""

from collections.abc import Callable, Iterator

from tuner.render.columns import left
from tuner.render.document.marks import Mark, Medium, words
from tuner.render.document.painting import line, prose, styled
from tuner.render.document.parts import (
    Annotation,
    AnswerDocument,
    Bullet,
    Drawing,
    Entry,
    Facts,
    Heading,
    Headline,
    Paragraph,
    Part,
    Paste,
    Table,
)
from tuner.render.terminal import Terminal
from tuner.render.words import headed

_STEP = "  "


def terminal_text(document: AnswerDocument, terminal: Terminal) -> str:
    """The document as lines, with one at its end."""
    return "\n\n".join(section_texts(document, terminal)) + "\n"


def section_texts(document: AnswerDocument, terminal: Terminal) -> Iterator[str]:
    """The lines of each section."""
    for section in document.shown(Medium.TERMINAL):
        yield "\n".join(text for part in section for text in _lines(part, terminal))


def _lines(part: Part, terminal: Terminal) -> Iterator[str]:
    write: Callable[..., Iterator[str]] = _WRITERS[type(part)]
    return write(part, terminal)


def _heading(part: Heading, terminal: Terminal) -> Iterator[str]:
    indent = _STEP * part.further
    text = prose(part.text, terminal, indent=indent, first="") if part.wraps else line(part.text, terminal)
    yield styled(text, Mark.STRONG, terminal)


def _headline(part: Headline, terminal: Terminal) -> Iterator[str]:
    yield prose(headed(part.word, part.text), terminal)


def _paragraph(part: Paragraph, terminal: Terminal) -> Iterator[str]:
    indent = _STEP * (part.level + part.further)
    first = part.label or _STEP * part.level
    for text in part.text.split("\n"):
        if words(text, Medium.TERMINAL):
            wrapped = prose(text, terminal, indent=indent, first=first) if part.wraps else None
            yield styled(first + line(text, terminal) if wrapped is None else wrapped, part.mark, terminal)


def _bullet(part: Bullet, terminal: Terminal) -> Iterator[str]:
    yield prose(part.text, terminal, indent=_STEP * 2, first=f"{_STEP}- " if part.dash else _STEP)


def _paste(part: Paste, terminal: Terminal) -> Iterator[str]:
    yield from (_STEP * part.level + styled(text, part.mark, terminal) for text in part.lines)


def _entry(part: Entry, terminal: Terminal) -> Iterator[str]:
    yield prose(part.text, terminal, indent=_STEP * (1 + part.further), first=_STEP)
    for detail in part.details:
        if detail.only in (None, Medium.TERMINAL):
            yield from _lines(detail, terminal)


def _facts(part: Facts, terminal: Terminal) -> Iterator[str]:
    indent = " " * (part.width + len(_STEP))
    for name, text in part.rows:
        yield prose(text, terminal, indent=indent, first=_STEP + left(f"{name} ", part.width))


def _table(part: Table, terminal: Terminal) -> Iterator[str]:
    from tuner.render.document.terminal_table import table_lines  # the short advice has no table

    return table_lines(part, terminal)


def _annotation(part: Annotation, terminal: Terminal) -> Iterator[str]:
    from tuner.render.document.terminal_annotation import annotation_lines  # of tuner check alone

    return annotation_lines(part, terminal)


def _drawing(part: Drawing, terminal: Terminal) -> Iterator[str]:
    yield part.draw(terminal)


_WRITERS: dict[type[Part], Callable[..., Iterator[str]]] = {
    Heading: _heading,
    Headline: _headline,
    Paragraph: _paragraph,
    Bullet: _bullet,
    Paste: _paste,
    Entry: _entry,
    Facts: _facts,
    Table: _table,
    Annotation: _annotation,
    Drawing: _drawing,
}
