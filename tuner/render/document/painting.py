"""Marked texts on a terminal: wrapped by what is seen of them, then painted."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from tuner.render.document.marks import ARROW, Mark, Medium, linked, pieces, words
from tuner.render.terminal import Terminal

Style = tuple[str, ...]

_STYLES: dict[Mark, Style] = {
    Mark.STRONG: ("bold",),
    Mark.DIM: ("dim",),
    Mark.GOOD: ("bold", "green"),
    Mark.DOUBTFUL: ("bold", "yellow"),
    Mark.BAD: ("bold", "red"),
    Mark.ERROR: ("red",),
    Mark.WARNING: ("yellow",),
    Mark.ADVICE: ("cyan",),
}


def line(text: str, terminal: Terminal) -> str:
    """A marked text as it is, painted and not wrapped."""
    if not terminal.colour or text.isprintable():
        return _shown(words(text, Medium.TERMINAL), terminal)
    return "".join(
        terminal.style(_shown(linked(piece)[0], terminal), *_style(marks))
        for piece, marks in pieces(text, Medium.TERMINAL)
    )


def prose(text: str, terminal: Terminal, *, indent: str = "", first: str | None = None) -> str:
    """A marked text, wrapped by what is seen of it and then painted."""
    first = indent if first is None else first
    shown_text = _shown(words(text, Medium.TERMINAL), terminal)
    wrapped = terminal.prose(shown_text, indent=indent, first=first)
    if not terminal.colour or text.isprintable():
        return wrapped
    # Wrapping moves blanks alone: the other characters keep their order, and with it their styles.
    styles = _styles(text, terminal)
    lines = wrapped.split("\n")
    margins = [first, *[indent] * (len(lines) - 1)]
    return "\n".join(
        margin + _painted(line[len(margin) :], styles, terminal)
        for line, margin in zip(lines, margins, strict=True)
    )


def _styles(text: str, terminal: Terminal) -> Iterator[Style]:
    """The style of each character that is seen and no blank."""
    for piece, marks in pieces(text, Medium.TERMINAL):
        style = _style(marks)
        shown = _shown(linked(piece)[0], terminal)
        yield from (style for char in shown if not char.isspace())


def _style(marks: Sequence[Mark]) -> Style:
    """The style of what stands under some marks."""
    return tuple(dict.fromkeys(name for mark in marks for name in _STYLES.get(mark, ())))


def _shown(text: str, terminal: Terminal) -> str:
    """The text in characters that the terminal has."""
    return text if terminal.unicode else text.replace(ARROW, terminal.arrow)


def _painted(line: str, styles: Iterator[Style], terminal: Terminal) -> str:
    """A line whose characters have styles; a blank between two of one style has it too."""
    of_chars: list[Style | None] = [None if char.isspace() else next(styles) for char in line]
    after: Style = ()
    for place in reversed(range(len(line))):
        style = of_chars[place]
        if style is None:
            before = next((one for one in reversed(of_chars[:place]) if one is not None), ())
            of_chars[place] = after if before == after else ()
        else:
            after = style
    return "".join(
        terminal.style("".join(char for char, _style in run), *(style or ()))
        for style, run in groupby(zip(line, of_chars, strict=True), key=lambda pair: pair[1])
    )


def styled(text: str, mark: Mark | None, terminal: Terminal) -> str:
    """Lines that stand under one mark as a whole."""
    return text if mark is None else terminal.style(text, *_STYLES.get(mark, ()))
