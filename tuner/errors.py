"""Errors that a user can act on. Only the command line catches them."""

from dataclasses import dataclass

from tuner.language import _
from tuner.shown_paths import shown_path

MOST_CHARACTERS = 500  # of what a message repeats of a user's input


# A dataclass and no struct: all commands import this module, and importing msgspec takes 10 ms.
@dataclass(frozen=True, kw_only=True)
class Location:
    """A place in a user's input, 1-based; ``source`` is a file path or "command line"."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [_(shown_path(self.source)), self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None)


class TunerError(Exception):
    """Something the user gave cannot be used; ends in one message and exit code 2."""

    def __init__(
        self,
        message: str,
        *,
        location: Location | None = None,
        key: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.key = key
        self.hint = hint

    def __str__(self) -> str:
        where = str(self.location) if self.location else None
        return message_of(where=where, key=self.key, message=self.message, hint=self.hint)


def message_of(*, where: str | None, key: str | None, message: str, hint: str | None) -> str:
    """The parts of an error in one line."""
    before = "".join(f"{part}: " for part in (where, key) if part)
    return f"{before}{message}" + (_("; ") + hint if hint else "")


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text with its middle left out where it is long."""
    return text if len(text) <= most else f"{text[: most * 3 // 4]} ... {text[-most // 4 :]}"


class InputError(TunerError):
    """A file, key, value or option is missing, malformed or contradictory."""


class SweepError(InputError):
    """An override has several values, each for a job of its own; ``point`` is the same with one of them."""

    def __init__(self, message: str, *, location: Location, key: str, point: str) -> None:
        super().__init__(message, location=location, key=key)
        self.point = point


class UnsupportedError(TunerError):
    """The input is understood, but it is of a kind this tool does not model."""
