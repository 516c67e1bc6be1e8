"""What of a script only a run would tell, and what of the reading rests on it."""

from collections.abc import Iterable

from msgspec import Struct

from tuner.enumeration import Enum
from tuner.errors import Location

_MOST_CAUSES = 16  # of one value


class UndecidedKind(Enum):
    """How a part of a script decides that is not run."""

    OUTPUT = "output"  # what a command prints
    STATUS = "status"  # whether a command succeeds
    LOOP = "loop"  # it has no end that can be seen
    SOURCED = "sourced"  # commands that other commands print
    TEST = "test"  # whether a condition holds


class UndecidedPart(Struct, frozen=True, kw_only=True):
    """A part of a script that is not run, or not followed to its end."""

    kind: UndecidedKind
    text: str  # as the script has it
    location: Location
    name: str = ""  # the variable that would settle a test; empty where none does
    file: str = ""  # the YAML file that a command reads; empty where it names none
    if_empty: bool = False  # how a test ends where all that is not known in it is empty

    @property
    def decides_way(self) -> bool:
        """Whether a script goes one of two ways by it."""
        return self.kind in (UndecidedKind.TEST, UndecidedKind.STATUS)


def together(*causes: Iterable[UndecidedPart]) -> tuple[UndecidedPart, ...]:
    """Causes of one value, each once, the first of many."""
    return tuple(dict.fromkeys(cause for several in causes for cause in several))[:_MOST_CAUSES]
