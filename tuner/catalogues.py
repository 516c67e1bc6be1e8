"""The catalogues of the languages other than English, read from the translators' own files.

They are not compiled, so that a change of a translation shows at once, in a checkout as in a wheel.
"""

from functools import cache, cached_property

from tuner.errors import InputError
from tuner.language import ENGLISH, Catalogue, _
from tuner.shipped import locale_dir

#: Languages by what a user may call them, in lower case and without an encoding.
LANGUAGES = {"en": ENGLISH, "zh": "zh_CN", "zh_cn": "zh_CN", "zh_hans": "zh_CN"}
_OF_THE_PROGRAM = "tuner"
_OF_THE_PAGES = (
    "rules",
    "reference",
    "model",
)  # of the documentation, which makes pages of some texts of the program


class FileCatalogue:
    """The texts of one language by their English: the program's own, and those of its documentation."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._read_pages: dict[str, dict[str, str]] = {}

    def gettext(self, message: str) -> str:
        """The translation of a text; the text itself where there is none."""
        return self._program.get(message) or message

    def ngettext(self, singular: str, plural: str, number: int) -> str:
        """The translation of a text that depends on a number; the form of large ones is taken for all."""
        return self._program.get(singular) or (singular if number == 1 else plural)

    def pgettext(self, context: str, message: str) -> str:
        """The translation of a word that has several meanings."""
        return self._program.get(_with_context(context, message)) or message

    def documented(self, message: str) -> str:
        """The translation of a text that stands in the documentation, which has it from the program."""
        pages = (self._page(name).get(message) for name in _OF_THE_PAGES)
        return next(filter(None, pages), None) or self.gettext(message)

    @cached_property
    def _program(self) -> dict[str, str]:
        return _read(self.language, _OF_THE_PROGRAM)

    def _page(self, name: str) -> dict[str, str]:
        if name not in self._read_pages:
            self._read_pages[name] = _read(self.language, name)
        return self._read_pages[name]


def _with_context(context: str | None, message: str) -> str:
    return f"{context}\x04{message}" if context else message  # as compiled catalogues have it


def _read(language: str, name: str) -> dict[str, str]:
    import polib

    path = locale_dir() / language / "LC_MESSAGES" / f"{name}.po"
    return {
        _with_context(entry.msgctxt, entry.msgid): entry.msgstr or entry.msgstr_plural.get(0, "")
        for entry in polib.pofile(str(path), encoding="utf-8")
        if not entry.obsolete and not entry.fuzzy
    }


@cache
def _catalogue(language: str) -> Catalogue:
    return FileCatalogue(language)


def catalogue(name: str, *, source: str) -> Catalogue | None:
    """The catalogue of a language; None for English.

    Args:
        name: of the language, such as ``zh``, ``zh-CN`` or ``zh_CN.UTF-8``.
        source: the option or variable that has it, for the message.

    Raises:
        InputError: there is no such language.
    """
    plain = name.partition(".")[0].lower().replace("-", "_")
    language = LANGUAGES.get(plain)
    if language is None:
        raise InputError(
            _("{source}: {name!r} is not a language of tuner").format(source=source, name=name),
            hint=_("there are en and zh"),
        )
    return None if language == ENGLISH else _catalogue(language)
