"""Values of the shell that may have parts nobody can know without running the script."""

from collections.abc import Iterable

from msgspec import Struct

from tuner.errors import Location
from tuner.inputs.shell.undecided_parts import UndecidedPart, together

_UNKNOWN_WEIGHT = 64  # characters; about what the object of an unknown piece takes in memory


class Unknown(Struct, frozen=True, kw_only=True):
    """A value, or a part of one, that the script alone does not tell.

    ``str()`` gives what stands for it in texts: ``$HOME``, ``$(hostname)``.
    """

    name: str  # the variable that would settle it; empty where none does
    text: str  # as the script has it
    location: Location
    because: tuple[UndecidedPart, ...] = ()  # what is not run that would tell it
    one_line: bool = False  # it has no end of a line
    several: bool = False  # it stands for any number of fields, none among them

    def __str__(self) -> str:
        return f"${self.name}" if self.name else self.text


class Text(Struct, frozen=True):
    """A string of the shell: known pieces and unknown ones in order, no two known ones side by side."""

    pieces: tuple[str | Unknown, ...] = ()

    @property
    def string(self) -> str | None:
        """The whole string, None where a piece of it is unknown."""
        if not self.pieces:
            return ""
        piece = self.pieces[0]
        return piece if len(self.pieces) == 1 and isinstance(piece, str) else None

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """The pieces that are not known."""
        return tuple(piece for piece in self.pieces if isinstance(piece, Unknown))

    @property
    def undecided_parts(self) -> tuple[UndecidedPart, ...]:
        """What is not run that would tell the pieces that are not known."""
        return together(*(piece.because for piece in self.unknowns))

    @property
    def size(self) -> int:
        """Characters of the known pieces."""
        return sum(len(piece) for piece in self.pieces if isinstance(piece, str))

    @property
    def weight(self) -> int:
        """Work that the value makes, in characters of a known one: a piece that is not known is an object."""
        return sum(
            [
                len(piece) if isinstance(piece, str) else max(len(piece.text), _UNKNOWN_WEIGHT)
                for piece in self.pieces
            ]
        )

    def __str__(self) -> str:
        first = self.pieces[0] if len(self.pieces) == 1 else None
        return first if isinstance(first, str) else "".join(map(str, self.pieces))


def text(*pieces: str | Unknown | Text) -> Text:
    """Pieces put together; neighbours that are known become one."""
    joined: list[str | Unknown] = []
    for piece in pieces:
        for part in piece.pieces if isinstance(piece, Text) else (piece,):
            if isinstance(part, Unknown):
                joined.append(part)
            elif joined and isinstance(joined[-1], str):
                joined[-1] += part
            elif part:
                joined.append(part)
    return Text(tuple(joined))


def joined(texts: Iterable[Text], separator: str) -> Text:
    """Strings put together with a separator between them."""
    pieces: list[str | Unknown | Text] = []
    for index, item in enumerate(texts):
        if index:
            pieces.append(separator)
        pieces.append(item)
    return text(*pieces)


class Field(Struct, frozen=True, kw_only=True):
    """One word of a command after expansion, and where the script has it."""

    text: Text
    location: Location
