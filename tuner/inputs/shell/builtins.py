"""Commands of the shell itself: assignments, arguments, files, ends.

Source: GNU Bash manual, "Shell Builtin Commands".
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from tuner.errors import Location
from tuner.inputs.secrets import is_carried, is_secret
from tuner.inputs.shell.arithmetic import Number
from tuner.inputs.shell.conditions import Conditions, Status
from tuner.inputs.shell.either import Value
from tuner.inputs.shell.exits import ExitShell, LeaveLoop, ReturnFromFunction
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.folders import absolute
from tuner.inputs.shell.machine import is_hook
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import Node, Source, parse
from tuner.inputs.shell.values import Field, Text, Unknown, joined, text

_MOST_ELEMENTS = 10_000  # of an array
Builtin = Callable[[Sequence[Field], Location], Status]
_SILENT = frozenset(
    {":", "shopt", "trap", "wait", "ulimit", "umask", "alias", "hash", "bind", "disown", "jobs"}
)


class Printer(Protocol):
    """Where builtins print to."""

    def print(self, output: Text) -> None:
        """Take what a builtin prints."""


class BuiltinShell(Protocol):
    """What builtins need of the interpreter."""

    scope: Scope
    streams: Printer

    def evaluate(self, content: str, place: Location) -> Status:
        """Follow a text that the script makes."""

    def source_file(self, name: Text, arguments: Sequence[Text], place: Location) -> Status:
        """Follow another file in the same scope."""

    def skip(self, text: str, place: Location) -> None:
        """Note commands that other commands print: what they set is not known."""


class Builtins:
    """The builtins of one interpreter."""

    def __init__(self, shell: BuiltinShell) -> None:
        self._shell = shell
        self.local_names: list[set[str]] = []  # of the functions that are being called
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
            "read": self._read,
            "cd": self._change_folder,
            "pushd": self._change_folder,
            "pwd": self._pwd,
            "getopts": lambda *_given: False,
            "sleep": lambda *_given: True,
        }

    def named(self, name: str) -> Builtin | None:
        """The builtin of this name, None where there is none."""
        return self._table.get(name) or ((lambda *_given: True) if name in _SILENT else None)

    def assign(self, node: Node, expander: Expander, source: Source) -> str:
        """``name=value``, ``name+=value``, ``name=(...)``, ``name[key]=value``; gives the name."""
        target, operator = node.children[0], node.children[1]
        name, _bracket, index = source.of(target).partition("[")
        value_node = node.children[2] if len(node.children) > 2 else None
        adds = operator.type == "+="
        variables = self._shell.scope.variables
        value: Value
        if value_node is not None and value_node.type == "array":
            value = self._array(value_node, expander, source, variables.get(name))
            before = variables.get(name)
            if adds and isinstance(before, tuple) and isinstance(value, tuple):
                value = (*before, *value)
                self._shell.scope.effort.copy_values(len(value))
            elif adds and isinstance(before, Text) and isinstance(value, tuple):
                value = (before, *value)
            variables[name] = value
            return name
        one = Text() if value_node is None else expander.one(value_node)
        if is_secret(name, str(one)) and not is_carried():
            one = Text((Unknown(name=name, text=f"${name}", location=source.location(target)),))
        if index:
            self._assign_element(name, one, target, expander, adds=adds)
            return name
        before = variables.get(name)
        if not adds:
            variables[name] = one
        elif isinstance(before, tuple):
            variables[name] = (text((before[0] if before else None) or "", one), *before[1:])
        elif isinstance(before, Text):
            variables[name] = text(before, one)
            self._shell.scope.effort.copy_text(before.weight)
        else:
            unset = Unknown(name=name, text=f"${name}", location=source.location(target))
            variables[name] = one if name in self._shell.scope.unset else text(unset, one)
        return name

    def _array(self, node: Node, expander: Expander, source: Source, before: Value | None) -> Value:
        if isinstance(before, dict):
            pairs = dict(before)
            for child in node.named_children:
                key, equals, _value = source.of(child).removeprefix("[").partition("]=")
                if equals:
                    whole = expander.one(child)
                    pairs[key.strip("\"'")] = text((whole.known or "").partition("]=")[2])
            return pairs
        return tuple(field.text for field in expander.fields(node.named_children))

    def _assign_element(
        self, name: str, value: Text, target: Node, expander: Expander, *, adds: bool
    ) -> None:
        variables = self._shell.scope.variables
        array = variables.get(name)
        if isinstance(array, Mapping):
            key = expander.one(target.named_children[-1]).known
            if key is not None:
                variables[name] = {**array, key: text(array.get(key, ""), value) if adds else value}
            return
        elements: list[Text | None] = []
        if array is not None:
            elements = [array] if isinstance(array, Text) else list(array)
        position = expander.number(target.named_children[-1])
        if position is not None and position < 0:
            position += len(elements)
        if position is None or not 0 <= position < _MOST_ELEMENTS:
            return
        elements += [None] * (position + 1 - len(elements))
        elements[position] = text(elements[position] or "", value) if adds else value
        variables[name] = tuple(elements)

    def unset(self, word: str, expander: Expander, place: Location) -> None:
        """``unset name`` and ``unset 'name[index]'``."""
        name, bracket, index = word.partition("[")
        scope = self._shell.scope
        array = scope.variables.get(name)
        if not bracket or array is None:
            scope.variables.pop(word, None)
            scope.functions.pop(word, None)
            scope.unset.add(word)
        elif isinstance(array, Mapping):
            scope.variables[name] = {key: value for key, value in array.items() if key != index[:-1]}
        elif isinstance(array, tuple):
            position = expander.computed(index.removesuffix("]"), place)
            rest = list(array)
            if position is not None and -len(rest) <= position < len(rest):
                rest[position] = None
            while rest and rest[-1] is None:
                rest.pop()
            scope.variables[name] = tuple(rest)

    def declare(self, node: Node, expander: Expander, source: Source) -> Status:
        """``export``, ``declare``, ``local``, ``readonly``, ``typeset``."""
        kind = node.children[0].type
        options = [source.of(child) for child in node.named_children if source.of(child).startswith("-")]
        associative = any("A" in option for option in options)
        exports = kind == "export" or any("x" in option for option in options)
        for child in node.named_children:
            if child.type == "variable_assignment":
                target = source.of(child.children[0]).partition("[")[0]
                self._make_local(kind, target)
                if exports:
                    self._shell.scope.exported.add(target)
                if associative:
                    self._shell.scope.variables[target] = {}
                self.assign(child, expander, source)
            elif child.type == "variable_name":
                target = source.of(child)
                self._make_local(kind, target)
                if exports:
                    self._shell.scope.exported.add(target)
                if associative:
                    self._shell.scope.variables[target] = {}
                elif kind == "local":
                    self._shell.scope.variables[target] = Text()
            elif child.type in ("string", "concatenation", "simple_expansion", "expansion"):
                name, equals, value = str(expander.one(child)).partition("=")
                if equals and name.isidentifier():
                    self._shell.scope.variables[name] = text(value)
                    self._shell.scope.exported.update({name} if exports else ())
        return True

    def _make_local(self, kind: str, name: str) -> None:
        if self.local_names and kind in ("local", "declare", "typeset"):
            self.local_names[-1].add(name)

    def _exit(self, words: Sequence[Field], _place: Location) -> Status:
        raise ExitShell(_status(words))

    def _return(self, words: Sequence[Field], _place: Location) -> Status:
        raise ReturnFromFunction(_status(words))

    def _break(self, *_given: object) -> Status:
        raise LeaveLoop(ends=True)

    def _continue(self, *_given: object) -> Status:
        raise LeaveLoop(ends=False)

    def _shift(self, words: Sequence[Field], _place: Location) -> Status:
        count = words[0].text.known if words else "1"
        scope = self._shell.scope
        if count is None or not count.isdecimal() or len(count) > 6 or int(count) > len(scope.arguments):
            return False
        scope.arguments = scope.arguments[int(count) :]
        return True

    def _set(self, words: Sequence[Field], _place: Location) -> Status:
        for position, word in enumerate(words):
            known = word.text.known
            if known is not None and (known == "allexport" or re.fullmatch(r"-[a-z]*a[a-z]*", known)):
                self._shell.scope.exports_all = True
            if known == "--":
                self._shell.scope.arguments = tuple(each.text for each in words[position + 1 :])
                return True
            if known is None or not known.startswith(("-", "+")):
                if position and str(words[position - 1].text).endswith("o"):
                    continue  # "set -o pipefail"
                self._shell.scope.arguments = tuple(each.text for each in words[position:])
                return True
        return True

    def _eval(self, words: Sequence[Field], place: Location) -> Status:
        line = joined((word.text for word in words), " ")
        if len(line.pieces) == 1 and line.because and not is_hook(str(line)):
            self._shell.skip(f"eval {line}", place)
            return None
        return self.evaluate(line, place)

    def evaluate(self, line: Text, place: Location) -> Status:
        """Follow a text as a script of its own."""
        known = (line if line.known is not None else self._with_variables(line)).known
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
            value = None if word.text.known is None else expander.computed(word.text.known, place)
        return None if value is None else bool(value)

    def _read(self, words: Sequence[Field], place: Location) -> Status:
        for word in words:
            name = word.text.known
            if name is not None and name.isidentifier():
                self._shell.scope.variables[name] = Text(
                    (Unknown(name=name, text=f"${name}", location=place),)
                )
        return None

    def _change_folder(self, words: Sequence[Field], place: Location) -> Status:
        named = [word for word in words if not str(word.text).startswith("-")]
        target = named[0].text if named else Text((Unknown(name="HOME", text="~", location=place),))
        if words and not named:  # "cd -"
            return True
        folder = None if target.known is None else absolute(target.known, self._shell.scope, place)
        if folder is not None:
            self._shell.scope.variables["PWD"] = text(folder)
        elif target.known != ".":
            self._shell.scope.variables["PWD"] = target
        return True

    def _pwd(self, _words: Sequence[Field], place: Location) -> Status:
        folder = self._shell.scope.variables.get("PWD")
        unknown = Text((Unknown(name="PWD", text="$PWD", location=place),))
        self._shell.streams.print(folder if isinstance(folder, Text) else unknown)
        return True


def _status(words: Sequence[Field]) -> Status:
    code = words[0].text.known if words else "0"
    return None if code is None else code == "0"
