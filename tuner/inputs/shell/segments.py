"""The segments that a word of the shell expands to, and how they fall into fields.

Source: GNU Bash manual, "Word Splitting".
"""

import re
from functools import lru_cache

from msgspec import Struct

from tuner.inputs.shell.scope import BLANKS
from tuner.inputs.shell.values import Text, Unknown, text


class Segment(Struct, frozen=True):
    """A part of a word; only one that stands outside quotes is split."""

    text: Text
    splits: bool


Expanded = list[list[Segment]]
"""The segments of a word, in fields that the word itself parts: ``"$@"`` has one for each argument."""


def append(expanded: Expanded, further: Expanded) -> None:
    """Put the segments of what follows in a word behind those before it."""
    if not further:
        return
    if not expanded:
        expanded.append([])
    expanded[-1].extend(further[0])
    expanded.extend(list(run) for run in further[1:])


def split(expanded: Expanded, separators: str = BLANKS) -> list[Text]:
    """The fields of a word: parted at the separators that stand in segments outside quotes.

    Blanks part them however many there are, each other separator for itself.
    """
    fields: list[Text] = []
    parts = _parts(separators)
    for run in expanded:
        current: list[Text] | None = None
        for segment in run:
            if not segment.splits:
                current = current or []
                current.append(segment.text)
                continue
            for piece in segment.text.pieces:
                if isinstance(piece, Unknown):
                    current = current or []
                    current.append(Text((piece,)))
                    continue
                for apart, part in parts.findall(piece):
                    if apart and (current is not None or apart.strip(BLANKS)):
                        fields.append(text(*(current or ())))
                        current = None
                    elif part:
                        current = current or []
                        current.append(text(part))
        if current is not None:
            fields.append(text(*current))
    return fields


@lru_cache(maxsize=16)
def _parts(separators: str) -> re.Pattern[str]:
    """What parts fields, or a piece of one."""
    blanks = re.escape("".join(character for character in separators if character in BLANKS))
    others = re.escape("".join(character for character in separators if character not in BLANKS))
    if not separators:
        return re.compile(r"((?!))|(.+)", re.DOTALL)
    space = f"[{blanks}]*" if blanks else ""
    apart = [f"{space}[{others}]{space}"] if others else []
    apart += [f"[{blanks}]+"] if blanks else []
    return re.compile(f"({'|'.join(apart)})|([^{blanks}{others}]+)")


def literal(words: str) -> Expanded:
    """Text as it stands."""
    return [[Segment(text(words), splits=False)]]


def quoted(expanded: Expanded) -> Expanded:
    """Segments as they are inside quotes; no field at all stays none."""
    return [[Segment(segment.text, splits=False) for segment in run] for run in expanded]
