"""Commands of the shell itself: assignments, arguments, files, ends.

Source: GNU Bash manual, "Shell Builtin Commands".
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from tuner.errors import Location
from tuner.inputs.shell.arithmetic import Number
from tuner.inputs.shell.conditions import Conditions, Status
from tuner.inputs.shell.exits import ExitShell, LeaveLoop, ReturnFromFunction
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.folders import absolute
from tuner.inputs.shell.input_lines import GivenInput, mapfile, read
from tuner.inputs.shell.machine import is_hook
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import parse
from tuner.inputs.shell.values import Field, Text, Unknown, joined, text

_MOST_ELEMENTS = 10_000  # of an array
Builtin = Callable[[Sequence[Field], Location], Status]
_SILENT = frozenset(
    {":", "shopt", "trap", "wait", "ulimit", "umask", "alias", "hash", "bind", "disown", "jobs"}
)


class BuiltinStreams(GivenInput, Protocol):
    """What builtins read, and where they print to."""

    def print(self, output: Text) -> None:
        """Take what a builtin prints."""


class BuiltinShell(Protocol):
    """What builtins need of the interpreter."""

    scope: Scope

    @property
    def streams(self) -> BuiltinStreams:
        """Standard input and output."""

    def evaluate(self, content: str, place: Location) -> Status:
        """Follow a text that the script makes."""

    def source_file(self, name: Text, arguments: Sequence[Text], place: Location) -> Status:
        """Follow another file in the same scope."""

    def skip(self, text: str, place: Location, file: str = "") -> None:
        """Note commands that other commands print: what they set is not known."""


class Builtins:
    """The builtins of one interpreter."""

    def __init__(self, shell: BuiltinShell) -> None:
        self._shell = shell
        self._table: dict[str, Builtin] = {
            "true": lambda *_given: True,
            "false": lambda *_given: False,
            "exit": self._exit,
            "return": self._return,
            "break": self._break,
            "continue": self._continue,
            "shift": self._shift,
            "set": self._set,
            "eval": self._eval,
            "source": self._source,
            ".": self._source,
            "test": self._test,
            "let": self._let,
            "read": partial(read, self._shell),
            "mapfile": partial(mapfile, self._shell),
            "readarray": partial(mapfile, self._shell),
            "cd": self._change_folder,
            "pushd": self._change_folder,
            "pwd": self._pwd,
            "getopts": lambda *_given: False,
            "sleep": lambda *_given: True,
        }

    def named(self, name: str) -> Builtin | None:
        """The builtin of this name, None where there is none."""
        return self._table.get(name) or ((lambda *_given: True) if name in _SILENT else None)

    def _exit(self, words: Sequence[Field], place: Location) -> Status:
        raise ExitShell(_status(words), place)

    def _return(self, words: Sequence[Field], _place: Location) -> Status:
        raise ReturnFromFunction(_status(words))

    def _break(self, *_given: object) -> Status:
        raise LeaveLoop(ends=True)

    def _continue(self, *_given: object) -> Status:
        raise LeaveLoop(ends=False)

    def _shift(self, words: Sequence[Field], _place: Location) -> Status:
        count = words[0].text.string if words else "1"
        scope = self._shell.scope
        if count is None or not count.isdecimal() or len(count) > 6 or int(count) > len(scope.arguments):
            return False
        scope.arguments = scope.arguments[int(count) :]
        return True

    def _set(self, words: Sequence[Field], _place: Location) -> Status:
        for position, word in enumerate(words):
            known = word.text.string
            if known is not None and (known == "allexport" or re.fullmatch(r"-[a-z]*a[a-z]*", known)):
                self._shell.scope.exports_all = True
            if known == "--":
                self._shell.scope.arguments = tuple(argument.text for argument in words[position + 1 :])
                return True
            if known is None or not known.startswith(("-", "+")):
                if position and str(words[position - 1].text).endswith("o"):
                    continue  # "set -o pipefail"
                self._shell.scope.arguments = tuple(argument.text for argument in words[position:])
                return True
        return True

    def _eval(self, words: Sequence[Field], place: Location) -> Status:
        line = joined((word.text for word in words), " ")
        if len(line.pieces) == 1 and line.undecided_parts and not is_hook(str(line)):
            file = next((part.file for part in line.undecided_parts if part.file), "")
            self._shell.skip(f"eval {line}", place, file)
            return None
        return self.evaluate(line, place)

    def evaluate(self, line: Text, place: Location) -> Status:
        """Follow a text as a script of its own."""
        known = (line if line.string is not None else self._with_variables(line)).string
        return None if known is None else self._shell.evaluate(known, place)

    def _with_variables(self, line: Text) -> Text:
        """The unknown pieces under names of their own, so that the rest can be followed."""
        pieces: list[str] = []
        for number, piece in enumerate(line.pieces):
            if isinstance(piece, Unknown):
                name = f"_unknown_{number}"
                self._shell.scope.variables[name] = Text((piece,))
                pieces.append(f"${{{name}}}")
            else:
                pieces.append(piece)
        return text("".join(pieces))

    def _source(self, words: Sequence[Field], place: Location) -> Status:
        if not words:
            return False
        return self._shell.source_file(words[0].text, [word.text for word in words[1:]], place)

    def _test(self, words: Sequence[Field], place: Location) -> Status:
        source = parse(place.source, b"", first=place)
        scope = self._shell.scope
        expander = Expander(scope, source, lambda _: Text())
        return Conditions(scope, source, expander, place).words([word.text for word in words])

    def _let(self, words: Sequence[Field], place: Location) -> Status:
        source = parse(place.source, b"", first=place)
        expander = Expander(self._shell.scope, source, lambda _: Text())
        value: Number = None
        for word in words:
            value = None if word.text.string is None else expander.computed(word.text.string, place)
        return None if value is None else bool(value)

    def _change_folder(self, words: Sequence[Field], place: Location) -> Status:
        named = [word for word in words if not str(word.text).startswith("-")]
        target = named[0].text if named else Text((Unknown(name="HOME", text="~", location=place),))
        if words and not named:  # "cd -"
            return True
        folder = None if target.string is None else absolute(target.string, self._shell.scope, place)
        if folder is not None:
            self._shell.scope.variables["PWD"] = text(folder)
        elif target.string != ".":
            self._shell.scope.variables["PWD"] = target
        return True

    def _pwd(self, _words: Sequence[Field], place: Location) -> Status:
        folder = self._shell.scope.variables.get("PWD")
        unknown = Text((Unknown(name="PWD", text="$PWD", location=place),))
        self._shell.streams.print(folder if isinstance(folder, Text) else unknown)
        return True


def _status(words: Sequence[Field]) -> Status:
    code = words[0].text.string if words else "0"
    return None if code is None else code == "0"
