"""The folders that a script has pip install as they lie: ``pip install -e ./verl``."""

import re
from collections.abc import Callable, Iterator, Sequence

_PIP = re.compile(r"(?:.*/)?pip[\d.]*")
_EDITABLE = ("-e", "--editable")
_EXTRAS = re.compile(r"\[[\w,\s-]*\]$")


def installed_folders(words: Sequence[str], spell: Callable[[str], str]) -> tuple[str, ...]:
    """The folders whose packages are installed in place by a command.

    Args:
        words: of the command, unknown values by the names of their variables.
        spell: a path as all commands of the script would have it.
    """
    install = next(
        (
            place
            for place, word in enumerate(words[:-1])
            if _PIP.fullmatch(word) and words[place + 1] == "install"
        ),
        None,
    )
    return () if install is None else tuple(map(spell, _editable(words[install + 2 :])))


def _editable(words: Sequence[str]) -> Iterator[str]:
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        path = word if before in _EDITABLE else value if equals and option in _EDITABLE else ""
        if path and "://" not in path:
            yield _EXTRAS.sub("", path)
        before = word
