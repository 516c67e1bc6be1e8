"""A program that a script runs before its launch, and that may change what the launch reads."""

from msgspec import Struct

from tuner.errors import Location


class EarlierProgram(Struct, frozen=True, kw_only=True):
    """A Python program that a script runs before the launch, with the words that it gets."""

    name: str  # a module's name, or the path of a file
    words: tuple[str, ...]
    location: Location

    def is_given(self, path: str) -> bool:
        """Whether one of its words is this path, be it behind an option and ``=``."""
        return any(word == path or word.endswith(f"={path}") for word in self.words)
