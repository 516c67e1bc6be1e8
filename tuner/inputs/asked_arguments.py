"""What a script says itself of the arguments that it takes by their places."""

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location


class ScriptArguments(Struct, frozen=True, kw_only=True):
    """The arguments of a script: the lines that take them, and its usage."""

    uses: tuple[tuple[str, str, Location], ...] = ()  # "$4", the line that takes it first, and its place
    usage: str = ""  # as it would print it

    @property
    def last(self) -> int:
        """The place of the last one."""
        return max((int(name[1:]) for name, _line, _place in self.uses), default=0)

    def use_of(self, name: str) -> tuple[str, Location] | None:
        """The line that takes an argument first; None where none does."""
        return next(((line, place) for own, line, place in self.uses if own == name), None)

    def beyond(self, given: int) -> "ScriptArguments":
        """The arguments that are left to give when so many are given."""
        return replace(self, uses=tuple(use for use in self.uses if int(use[0][1:]) > given))
