"""Pictures of the guide, drawn from the model and the recorded data while a page is built.

Each module draws one: ``WORDS`` are its texts in English by their names, which the page's catalogue
translates, and ``draw(words, arguments)`` gives the picture and the numbers in it as a table.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Protocol, cast

from msgspec import Struct


class Drawing(Struct, frozen=True, kw_only=True):
    """A picture, and what it shows as a table."""

    svg: str  # begins with <svg and fits any width
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class FigureModule(Protocol):
    """What a module of this package has."""

    WORDS: Mapping[str, str]

    def draw(self, words: Mapping[str, str], arguments: Sequence[str]) -> Drawing:
        """The picture with these texts; arguments are those of the directive, such as overrides."""


def figure(name: str) -> FigureModule:
    """The module that draws a figure.

    Raises:
        ModuleNotFoundError: there is none of this name.
    """
    return cast(FigureModule, import_module(f"figures.{name.replace('-', '_')}"))
