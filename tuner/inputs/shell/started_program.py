"""A program that a script starts, with what is known of how it comes to that."""

from msgspec import Struct

from tuner.errors import Location
from tuner.inputs.environment import EnvironmentVariable
from tuner.inputs.shell.placements import Placing
from tuner.inputs.shell.undecided_parts import UndecidedPart
from tuner.inputs.shell.values import Field, Text


class StartedProgram(Struct, frozen=True, kw_only=True):
    """A program that the script starts."""

    words: tuple[Field, ...]
    environment: tuple[tuple[str, Text], ...]  # assignments in front of it, and devices that it sees
    assigned: tuple[tuple[str, Text], ...] = ()  # the assignments in front of it alone
    location: Location
    certain: bool  # no branch that nobody knows leads to it
    doubts: tuple[UndecidedPart, ...] = ()  # what is not run that would tell whether such a branch is taken
    folders: tuple[str, ...] = ()  # that it runs in and that Python looks for modules in, as far as is known
    variables: tuple[EnvironmentVariable, ...] = ()  # that the script gives it
    search: tuple[str, ...] = ()  # where Python looks for modules, unknown folders by their variables
    placing: Placing | None = None  # what it links, copies or moves
    installs: tuple[str, ...] = ()  # folders whose packages pip installs in place
