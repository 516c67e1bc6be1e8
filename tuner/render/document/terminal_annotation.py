"""A line of a file on a terminal: carets under a piece of it, notes behind a margin, and a difference."""

from collections.abc import Iterator

from tuner.render.columns import cells
from tuner.render.document.painting import line, styled
from tuner.render.document.parts import Annotation
from tuner.render.terminal import Terminal

_MARGIN = "cyan"
_DIFFERENCE = {"+": "green", "-": "red"}


def annotation_lines(part: Annotation, terminal: Terminal) -> Iterator[str]:
    """The frame with the line, a line for each note, and the lines that would change."""
    margin = " " * (len(part.number) + 1)
    if part.quote is not None:
        yield from _frame(part, *part.quote, terminal)
    for note in part.notes:
        yield f"{margin}{terminal.style('=', _MARGIN)} {line(note, terminal)}"
    for changed in part.change:
        yield f"{margin}  {terminal.style(changed, _DIFFERENCE[changed[0]])}"


def _frame(part: Annotation, before: str, piece: str, behind: str, terminal: Terminal) -> Iterator[str]:
    """The line of the file, and carets under the piece."""
    margin, bar = " " * (len(part.number) + 1), terminal.style("|", _MARGIN)
    carets = styled("^" * max(1, cells(piece)), part.pointer, terminal)
    yield f"{margin}{bar}"
    yield f"{terminal.style(part.number, _MARGIN)} {bar} {before}{piece}{behind}"
    yield f"{margin}{bar} {' ' * cells(before)}{carets}"
