"""Which form an input has, and how several on one command line are told apart, each with its own words.

A word that names a file, or ``-``, is a configuration. A word with ``=`` that names no file is an override
or a variable, and so is one that begins with ``+`` or ``~``. What stands behind a configuration belongs to it
and to those right before it: in ``a.yaml b.yaml x.y=1 c.yaml x.y=2`` the first override is of ``a.yaml`` and
``b.yaml``, the second of ``c.yaml``. In ``a.yaml a.yaml x.y=1`` it is of the second one alone. Where the line
begins with a command or an override, all of it is one configuration.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tuner.files import STANDARD_INPUT, is_there

YAML_NAMES = (".yaml", ".yml", ".json")
SHELL_NAMES = (".sh", ".bash", ".slurm", ".sbatch", ".pbs")
_MAPPING = re.compile(r"(?:---|\{|-\s|[\w./@'\"+-]+\s*:(?:\s|$))")


_SETTING = ("+", "~")  # how an override begins that adds or deletes a key


def is_command(word: str) -> bool:
    """Whether a first word begins a pasted command and names no file."""
    return "=" in word or word.startswith(("+", "~")) or ("/" not in word and "." not in word)


def is_shell(name: str, text: str) -> bool:
    """Whether a text is a script and no YAML, by its name where that tells, else by its first line."""
    if name.endswith(YAML_NAMES):
        return False
    if name.endswith(SHELL_NAMES) or text.startswith("#!"):
        return True
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", "%"))), "")
    return bool(first) and _MAPPING.match(first) is None


class Input(Struct, frozen=True, kw_only=True):
    """One configuration as it was named, and the words that belong to it."""

    config: str  # a file, "-", or the first word of a pasted command
    words: tuple[str, ...] = ()
    pasted: bool = False  # a command, not a file


def separated(words: Sequence[str]) -> tuple[Input, ...]:
    """The configurations that the words of a command line name, in their order."""
    if words and _is_pasted(words):
        return (Input(config=words[0], words=tuple(words[1:]), pasted=True),)
    return tuple(_separated(words))


def _separated(words: Sequence[str]) -> Iterator[Input]:
    names: list[str] = []
    behind: list[str] = []
    for word in words:
        if names and _belongs(word, names[-1]):
            behind.append(word)
            continue
        if behind:
            yield from _with_words(names, behind)
            names, behind = [], []
        names.append(word)
    yield from _with_words(names, behind)


def _with_words(names: Sequence[str], behind: Sequence[str]) -> Iterator[Input]:
    """The configurations with the words behind them; one that is named again has them the last time alone."""
    for place, name in enumerate(names, start=1):
        yield Input(config=name, words=() if name in names[place:] else tuple(behind))


def _is_pasted(words: Sequence[str]) -> bool:
    first = words[0]
    is_file = first == STANDARD_INPUT or is_there(first)
    return not is_file and is_command(first) and any(map(_is_setting, words))


def _belongs(word: str, name: str) -> bool:
    """Whether a word is said of the configuration before it, instead of naming one."""
    if _is_setting(word) or (word.startswith("-") and word != STANDARD_INPUT):
        return True
    takes_arguments = name == STANDARD_INPUT or name.endswith(SHELL_NAMES)
    names_file = word == STANDARD_INPUT or word.endswith(SHELL_NAMES + YAML_NAMES) or is_there(word)
    return takes_arguments and not names_file


def _is_setting(word: str) -> bool:
    return ("=" in word or word.startswith(_SETTING)) and not is_there(word)
