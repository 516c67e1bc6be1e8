"""What gives a variable of the shell its value, or takes it: assignments, ``declare``, ``unset``.

Source: GNU Bash manual, "Shell Parameters", "Arrays".
"""

from collections.abc import Mapping
from typing import Protocol

from tuner.errors import Location
from tuner.inputs.secrets import is_carried, is_secret
from tuner.inputs.shell.conditions import Status
from tuner.inputs.shell.either import Value
from tuner.inputs.shell.expansion import Expander
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.source import Node, Source
from tuner.inputs.shell.values import Text, Unknown, text

_MOST_ELEMENTS = 10_000  # of an array


class AssigningShell(Protocol):
    """What assignments need of the interpreter."""

    scope: Scope


class Assignments:
    """Assignments of one interpreter."""

    def __init__(self, shell: AssigningShell) -> None:
        self._shell = shell
        self.local_names: list[set[str]] = []  # of the functions that are being called

    def assign(self, node: Node, expander: Expander, source: Source) -> str:
        """``name=value``, ``name+=value``, ``name=(...)``, ``name[key]=value``; gives the name."""
        target, operator = node.children[0], node.children[1]
        name, _bracket, index = source.of(target).partition("[")
        self._shell.scope.assigned_at[name] = source.location(target)
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
        one = Text() if value_node is None else expander.expand_to_string(value_node)
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
                    whole = expander.expand_to_string(child)
                    pairs[key.strip("\"'")] = text((whole.string or "").partition("]=")[2])
            return pairs
        return tuple(field.text for field in expander.fields(node.named_children))

    def _assign_element(
        self, name: str, value: Text, target: Node, expander: Expander, *, adds: bool
    ) -> None:
        variables = self._shell.scope.variables
        array = variables.get(name)
        if isinstance(array, Mapping):
            key = expander.expand_to_string(target.named_children[-1]).string
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
                name, equals, value = str(expander.expand_to_string(child)).partition("=")
                if equals and name.isidentifier():
                    self._shell.scope.assigned_at[name] = source.location(child)
                    self._shell.scope.variables[name] = text(value)
                    self._shell.scope.exported.update({name} if exports else ())
        return True

    def _make_local(self, kind: str, name: str) -> None:
        if self.local_names and kind in ("local", "declare", "typeset"):
            self.local_names[-1].add(name)
