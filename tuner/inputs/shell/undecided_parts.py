"""What of a script only a run would tell, and what of the reading rests on it."""

from collections.abc import Iterable

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.errors import Location

_MOST_CAUSES = 8  # of one value


class UndecidedKind(Enum):
    """How a part of a script decides that is not run."""

    OUTPUT = "output"  # what a command prints
    STATUS = "status"  # whether a command succeeds
    LOOP = "loop"  # it has no end that can be seen
    SOURCED = "sourced"  # commands that other commands print


class UndecidedPart(Struct, frozen=True, kw_only=True):
    """A part of a script that is not run, or not followed to its end."""

    kind: UndecidedKind
    text: str  # as the script has it
    location: Location


def together(*causes: Iterable[UndecidedPart]) -> tuple[UndecidedPart, ...]:
    """Causes of one value, each once, the first of many."""
    return tuple(dict.fromkeys(cause for several in causes for cause in several))[:_MOST_CAUSES]
