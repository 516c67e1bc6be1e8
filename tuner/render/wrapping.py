"""Lines of text that is not all Latin: Chinese breaks between characters, but not around its punctuation."""

import re
from collections.abc import Iterator

from tuner.render.columns import columns

_NOT_FIRST = "\uff0c\u3002\uff1b\uff1a\uff01\uff1f\uff09\u3001\u201d\u300b\u2026"  # what no line begins with
_NOT_LAST = "\uff08\u201c\u300a"  # what no line ends with
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef“”…"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_GLUED = re.compile(rf"(?<=[{_HAN}])(?=[A-Za-z0-9-])|(?<=[A-Za-z0-9])(?=[{_HAN}])")
_SPACED = re.compile(rf"(?<=[{_NOT_FIRST.replace(chr(0x2026), '')}]) +(?=\S)")
_TECHNICAL = re.compile(r"[\\/._=:~@]")
_PIECE = re.compile(
    rf"[{_NOT_LAST}]*(?:[^\S\u00a0]+|[{_WIDE}]|[^\s{_WIDE}\u00a0]+(?:\u00a0[^\s{_WIDE}]+)*)[{_NOT_FIRST}]*"
)


def wrapped(text: str, width: int, *, first: str, rest: str) -> str:
    """The text in lines of so many columns, the first behind ``first``, the others behind ``rest``.

    Words of letters, such as keys and paths, are never broken.
    """
    return "\n".join(_lines(set_off(text), width, first=first, rest=rest))


def set_off(text: str) -> str:
    """The text with a space between Chinese and Latin words that a placeholder put side by side.

    None stands behind full-width punctuation, which has its own.
    What may be a path or a key stays as it is.
    """
    text = _SPACED.sub("", text)
    return " ".join(word if _TECHNICAL.search(word) else _GLUED.sub(" ", word) for word in text.split(" "))


def _lines(text: str, width: int, *, first: str, rest: str) -> Iterator[str]:
    line, used = first, columns(first)
    begun = False
    for piece in _PIECE.findall(text):
        room = columns(piece)
        if begun and not piece.isspace() and used + room > width:
            yield line.rstrip()
            line, used, begun = rest, columns(rest), False
        if begun or not piece.isspace():
            word = " " if piece.isspace() else piece
            line, used, begun = line + word, used + columns(word), True
    if begun or not text:
        yield line.rstrip()
