"""Errors that a user can act on. Only the command line catches them."""

from dataclasses import dataclass

from tuner.language import _


# A dataclass and no struct: all commands import this module, and importing msgspec takes 10 ms.
@dataclass(frozen=True, kw_only=True)
class Location:
    """A place in a user's input, 1-based; ``source`` is a file path or "command line"."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        parts = [_(self.source), self.line, self.column]
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
        where = f"{self.location}: " if self.location else ""
        key = f"{self.key}: " if self.key else ""
        hint = _("; ") + self.hint if self.hint else ""
        return f"{where}{key}{self.message}{hint}"


class InputError(TunerError):
    """A file, key, value or option is missing, malformed or contradictory."""


class UnsupportedError(TunerError):
    """The input is understood, but it is of a kind this tool does not model."""
