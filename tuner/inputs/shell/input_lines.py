"""What ``read`` and ``mapfile`` give variables of what stands on standard input.

Source: GNU Bash manual, "Bash Builtin Commands" and "Word Splitting".
"""

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location
from tuner.inputs.secrets import is_carried, is_secret
from tuner.inputs.shell.conditions import Status
from tuner.inputs.shell.scope import BLANKS, Scope
from tuner.inputs.shell.values import Field, Text, Unknown, text

_MOST_ELEMENTS = 10_000  # of an array
_OF_READ = ("adinNptu", frozenset("adpt"))  # options with a value, and those whose value makes no difference
_OF_MAPFILE = ("dnOsuCc", frozenset("d"))


class InputShell(Protocol):
    """What reading needs of the interpreter."""

    @property
    def scope(self) -> Scope:
        """The variables."""

    @property
    def streams(self) -> "GivenInput":
        """Standard input."""


class GivenInput(Protocol):
    """Standard input of a command: what nobody has read of it yet, None where nobody says."""

    given: Text | None


class _Words(Struct, frozen=True, kw_only=True):
    """The words of a command that reads: its options with their values, and names of variables."""

    options: dict[str, str]
    names: tuple[str, ...]
    understood: bool  # no option makes it read in a way that is not followed


def read(shell: InputShell, words: Sequence[Field], place: Location) -> Status:
    """``read``: a line, as words of an array or of some variables."""
    command = _words(words, *_OF_READ)
    array = command.options.get("a")
    line, separators = _line(shell, command), shell.scope.separators
    if line is None or separators is None:
        if array:
            _set_unknown_array(shell, array, place)
        for name in filter(str.isidentifier, command.names if not array else ()):
            _set(shell.scope, name, Text((_unknown(name, place),)), place)
        return None
    content, ended = line
    if array:
        _set_array(shell.scope, array, list(_split(content, separators)), place)
    elif not command.names:
        _set(shell.scope, "REPLY", text(content), place)
    else:
        for name, value in zip(command.names, _shared(content, separators, len(command.names)), strict=True):
            _set(shell.scope, name, text(value), place)
    return ended


def mapfile(shell: InputShell, words: Sequence[Field], place: Location) -> Status:
    """``mapfile`` or ``readarray``: all lines, as elements of an array."""
    command = _words(words, *_OF_MAPFILE)
    name = command.names[0] if command.names else "MAPFILE"
    content = None if shell.streams.given is None else shell.streams.given.string
    if content is None or not command.understood:
        _set_unknown_array(shell, name, place)
        return True
    shell.streams.given = Text()
    end = command.options.get("d", "\n")[:1] or "\0"
    lines = content.split(end)
    ends = "" if "t" in command.options else end
    last = [lines[-1]] if lines[-1] else []
    _set_array(shell.scope, name, [*(line + ends for line in lines[:-1]), *last], place)
    return True


def _words(words: Sequence[Field], with_value: str, followed: frozenset[str]) -> _Words:
    """The options and the names, as ``getopts`` tells them apart."""
    options: dict[str, str] = {}
    rest = [word.text.string for word in words]
    understood = None not in rest
    while rest and (word := rest[0] or "").startswith("-") and len(word) > 1:
        rest.pop(0)
        if word == "--":
            break
        for place, letter in enumerate(word[1:], 2):
            if letter not in with_value:
                options[letter] = ""
                continue
            options[letter] = word[place:] or ((rest.pop(0) or "") if rest else "")
            understood = understood and letter in followed
            break
    return _Words(options=options, names=tuple(name or "" for name in rest), understood=understood)


def _line(shell: InputShell, command: _Words) -> tuple[str, bool] | None:
    """The next line, and whether its end was there; None where that is not known. What follows is left."""
    content = None if shell.streams.given is None else shell.streams.given.string
    if content is None or not command.understood or ("\\" in content and "r" not in command.options):
        return None
    line, end, rest = content.partition(command.options.get("d", "\n")[:1] or "\0")
    shell.streams.given = text(rest)
    return line, bool(end)


def _split(line: str, separators: str) -> Iterator[str]:
    """The words of a line: blanks part them however many there are, each other separator for itself."""
    while line := line.lstrip(_blanks(separators)):
        word, line = _first_word(line, separators)
        yield word


def _shared(line: str, separators: str, count: int) -> Iterator[str]:
    """A word of the line for each variable, and for the last one all that is left."""
    blanks = _blanks(separators)
    for _position in range(count - 1):
        word, line = _first_word(line.lstrip(blanks), separators)
        yield word
    rest = line.lstrip(blanks)
    word, behind = _first_word(rest, separators)
    yield rest.rstrip(blanks) if behind else word


def _first_word(line: str, separators: str) -> tuple[str, str]:
    """The first word, and what follows behind what parts it from the next one."""
    blanks = _blanks(separators)
    others = "".join(character for character in separators if character not in blanks)
    space = f"[{re.escape(blanks)}]*" if blanks else ""
    parts = [f"{space}[{re.escape(others)}]{space}"] if others else []
    parts += [f"[{re.escape(blanks)}]+"] if blanks else []
    word, *behind = re.split("|".join(parts), line, maxsplit=1) if parts else [line]
    return word, "".join(behind)


def _blanks(separators: str) -> str:
    """The separators of which several in a row part as one does."""
    return "".join(character for character in separators if character in BLANKS)


def _set_array(scope: Scope, name: str, values: Sequence[str], place: Location) -> None:
    scope.effort.copy_values(len(values))
    scope.variables[name] = tuple(_harmless(name, text(value), place) for value in values[:_MOST_ELEMENTS])


def _set_unknown_array(shell: InputShell, name: str, place: Location) -> None:
    """An array of any number of words: what is not known of the input would settle them."""
    given = shell.streams.given
    unknown = _unknown(name, place)
    if given is not None and given.unknowns:
        unknown = given.unknowns[0]
    shell.scope.variables[name] = (Text((replace(unknown, several=True),)),)


def _set(scope: Scope, name: str, value: Text, place: Location) -> None:
    if name.isidentifier():
        scope.effort.copy_text(value.weight)
        scope.variables[name] = _harmless(name, value, place)


def _harmless(name: str, value: Text, place: Location) -> Text:
    """The value, unless it is a secret that nothing may show."""
    hidden = is_secret(name, str(value)) and not is_carried()
    return Text((_unknown(name, place),)) if hidden else value


def _unknown(name: str, place: Location) -> Unknown:
    return Unknown(name=name, text=f"${name}", location=place)
