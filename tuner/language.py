"""The language of every text that a reader sees.

Texts stand in the code in English, with named placeholders, and are looked up in a catalogue where
another language was chosen: ``_("{name} is not a key").format(name=name)``. In English nothing is looked up.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

ENGLISH = "en"


class Catalogue(Protocol):
    """The texts of one language by their English."""

    @property
    def language(self) -> str:
        """Its name: ``"zh_CN"``."""

    def gettext(self, message: str) -> str:
        """The translation of a text; the text itself where there is none."""

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        """The translation of a text that depends on a number."""

    def pgettext(self, context: str, message: str) -> str:
        """The translation of a word that has several meanings."""

    def documented(self, message: str) -> str:
        """The translation of a text that stands in the documentation, which has it from the program."""


_catalogue: Catalogue | None = None


def _(message: str) -> str:
    """The text in the language that is chosen; placeholders are filled in afterwards."""
    return message if _catalogue is None else _catalogue.gettext(message)


def ngettext(singular: str, plural: str, number: int) -> str:
    """Chooses between two texts by a number: ``ngettext("{count} node", "{count} nodes", count)``."""
    if _catalogue is None:
        return singular if number == 1 else plural
    return _catalogue.ngettext(singular, plural, number)


def pgettext(context: str, message: str) -> str:
    """The text in the language that is chosen, of a word that has several meanings."""
    return message if _catalogue is None else _catalogue.pgettext(context, message)


def documented(message: str) -> str:
    """A text of which the documentation makes a page, such as a rule's, in the language that is chosen."""
    return message if _catalogue is None else _catalogue.documented(message)


def N_(message: str) -> str:  # noqa: N802 - gettext's own name
    """The text as it is, marked to be translated where it is shown: for what is defined at import."""
    return message


def choose(catalogue: Catalogue | None) -> None:
    """Make a catalogue that of all texts from now on; None for English."""
    global _catalogue
    _catalogue = catalogue


def chosen() -> str:
    """The language of the texts: ``"en"``, ``"zh_CN"``."""
    return ENGLISH if _catalogue is None else _catalogue.language


@contextmanager
def using(catalogue: Catalogue | None) -> Iterator[None]:
    """A catalogue for the texts of one block."""
    before = _catalogue
    choose(catalogue)
    try:
        yield
    finally:
        choose(before)
