"""Follows the statements of a program as far as they lay a configuration together; nothing of it is run."""

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from tuner.errors import cut
from tuner.inputs.overrides import Argument
from tuner.inputs.program.asked_options import TakenOptions
from tuner.inputs.program.code_parts import (
    key_of,
    outer_calls,
    parts_settings,
    passed_to,
    root_of,
    targets_in,
    updated_in,
)
from tuner.inputs.program.constants import UNKNOWN, Constants, called_name
from tuner.inputs.program.layers import ArgumentsLayer, FileLayer, LaidLayers, Layer, UnreadLayer, ValueLayer
from tuner.inputs.tree import nested, split_key

_OMEGACONF = "OmegaConf"
_MERGES = ("merge", "unsafe_merge")
_SAME = ("to_container", "create", "masked_copy")  # of a configuration: another one with the same values
_ONLY_SHOWN = frozenset({"print", "pprint", "info", "debug", "save", "to_yaml", "dumps", "len", "str"})
_DEEPEST = 6  # functions of the program that call one another
_MOST_STEPS = 5_000

_Names = dict[str, Any]
_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _ReturnedError(Exception):
    """A function ends with a value."""

    def __init__(self, value: object) -> None:
        self.value = value


class _Options:
    """What ``parse_args`` returns."""


class FollowedCode(Constants):
    """Runs through a module from its top, as Python would, with the values that are known.

    Args:
        tree: the module.
        file: its absolute path.
        taken: what the launch gives for the options of the program.
        arguments: all of the launch.
    """

    def __init__(
        self, tree: ast.Module, file: str, taken: TakenOptions, arguments: tuple[Argument, ...]
    ) -> None:
        self._locals: list[_Names] = []
        self._taken, self._arguments = taken, arguments
        self._functions = {node.name: node for node in tree.body if isinstance(node, _Function)}
        self._handed: LaidLayers | None = None
        self._steps = 0
        self._tree = tree
        super().__init__(tree, file)

    def handed(self) -> tuple[Layer, ...] | None:
        """The layers of the configuration that is handed on last to code of others; None without one."""
        self._locals.append({"__name__": "__main__"})
        self._follow(self._tree.body)
        return None if self._handed is None else self._handed.layers

    def value(self, node: ast.expr) -> Any:
        """What an expression stands for: a constant, arguments, or layers."""
        match node:
            case ast.Name(id=name) if self._locals and name in self._locals[-1]:
                return self._locals[-1][name]
            case ast.Constant(value=float() | bool() as value):
                return value
            case ast.Attribute() if isinstance(self.value(node.value), _Options):
                return self._taken.values.get(node.attr, UNKNOWN)
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="sys"), attr="argv")):
                return self._argument(node.slice)
            case ast.List(elts=[]) | ast.Tuple(elts=[]):
                return ()
            case ast.BoolOp(op=ast.Or(), values=values):
                return self._either(values)
            case ast.Call() if self._locals:
                return self._call(node)
        return super().value(node)

    def _argument(self, part: ast.expr) -> Any:
        """``sys.argv[1:]``, or one word of it."""
        match part:
            case ast.Slice(lower=ast.Constant(value=int() as first), upper=None) if first > 0:
                return self._arguments[first - 1 :]
            case ast.Constant(value=int() as number) if 0 < number <= len(self._arguments):
                return self._arguments[number - 1].text
        return UNKNOWN

    def _either(self, values: Sequence[ast.expr]) -> Any:
        """The first of several that counts as true."""
        for node in values:
            value = self.value(node)
            if value is UNKNOWN or value:
                return value
        return None

    def _call(self, call: ast.Call) -> Any:
        name = called_name(call)
        of = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(of, ast.Name) and of.id == _OMEGACONF:
            return self._of_omegaconf(call, name)
        if name == "parse_args":
            return _Options()
        if name == "parse_known_args":
            return (_Options(), self._taken.rest)
        own = of.id if name == "remote" and isinstance(of, ast.Name) else name if of is None else ""
        if own in self._functions and len(self._locals) <= _DEEPEST:
            return self._of_own(self._functions[own], call)
        passed = [self.value(node) for node in passed_to(call)]
        if name not in _ONLY_SHOWN:
            for value in passed:
                self._handed = value if isinstance(value, LaidLayers) else self._handed
        return super()._called(call) if not any(isinstance(one, LaidLayers) for one in passed) else UNKNOWN

    def _of_omegaconf(self, call: ast.Call, name: str) -> Any:
        first = self.value(call.args[0]) if call.args else None
        if name == "load":
            layer = FileLayer(path=first) if isinstance(first, str) else self._unread(call)
            return LaidLayers(layers=(layer,))
        if name in _MERGES:
            parts = [self.value(node) for node in call.args]
            layers = [
                part.layers if isinstance(part, LaidLayers) else (self._unread(node),)
                for part, node in zip(parts, call.args, strict=True)
            ]
            return LaidLayers(layers=tuple(layer for one in layers for layer in one))
        if name == "from_cli" and not call.args:
            return LaidLayers(layers=(ArgumentsLayer(arguments=self._arguments),))
        if name in ("from_cli", "from_dotlist"):
            known = isinstance(first, tuple) and all(isinstance(one, Argument) for one in first)
            if known or first is None:
                return LaidLayers(layers=(ArgumentsLayer(arguments=first or ()),))
        if name == "update" and isinstance(first, LaidLayers) and len(call.args) > 2:
            key, value = self.value(call.args[1]), self.value(call.args[2])
            self._set(call.args[0], key if isinstance(key, str) else "", value, call)
            return None
        if name in _SAME and isinstance(first, LaidLayers):
            return first.on()
        if name == "create":
            return LaidLayers(layers=(self._created(call),))
        return LaidLayers(layers=(self._unread(call),)) if name in ("from_dotlist", "structured") else UNKNOWN

    def _created(self, call: ast.Call) -> Layer:
        """``OmegaConf.create({...})`` of constants."""
        try:
            tree = ast.literal_eval(call.args[0]) if call.args else {}
        except (ValueError, TypeError):
            return self._unread(call)
        return ValueLayer(tree=tree, line=call.lineno) if isinstance(tree, dict) else self._unread(call)

    def _unread(self, node: ast.expr | ast.stmt) -> UnreadLayer:
        return UnreadLayer(text=cut(ast.unparse(node)), line=node.lineno)

    def _of_own(self, function: _Function, call: ast.Call) -> Any:
        """What a function of the module returns with its arguments."""
        parameters = [*function.args.posonlyargs, *function.args.args]
        names: _Names = {parameter.arg: UNKNOWN for parameter in parameters}
        defaults = function.args.defaults
        for parameter, node in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
            names[parameter.arg] = self.value(node)
        for parameter, node in zip(parameters, call.args, strict=False):
            names[parameter.arg] = self.value(node)
        names.update((word.arg, self.value(word.value)) for word in call.keywords if word.arg is not None)
        self._locals.append({**self._locals[0], **names})
        try:
            self._follow(function.body)
        except _ReturnedError as returned:
            return returned.value
        finally:
            self._locals.pop()
        return None

    def _follow(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise RecursionError
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=node):
                value = self.value(node)
                for target in targets:
                    self._assign(target, value, statement)
            case ast.AnnAssign(target=target, value=ast.expr() as node):
                self._assign(target, self.value(node), statement)
            case ast.Expr(value=node):
                for call in outer_calls(node):
                    self.value(call)
            case ast.Return(value=node):
                raise _ReturnedError(None if node is None else self.value(node))
            case ast.With(body=body):
                self._follow(body)
            case ast.Try(body=body, orelse=orelse, finalbody=finalbody):
                self._follow((*body, *orelse, *finalbody))
            case ast.If():
                self._branch(statement)
            case ast.For(iter=node) if parts_settings(statement) and isinstance(self.value(node), tuple):
                self._lay_settings(statement, self.value(node))
            case ast.For(target=ast.Name(id=name), iter=node) if isinstance(self.value(node), tuple):
                for one in self.value(node):
                    self._locals[-1][name] = one.text if isinstance(one, Argument) else one
                    self._follow(statement.body)
            case ast.For() | ast.While():
                self._open(statement)

    def _branch(self, statement: ast.If) -> None:
        """The way that a test of known values takes; what either sets is open where it is not known."""
        holds = self._holds(statement.test)
        if holds is None:
            self._open(statement)
        else:
            self._follow(statement.body if holds else statement.orelse)

    def _holds(self, test: ast.expr) -> bool | None:
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                holds = self._holds(inner)
                return None if holds is None else not holds
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                values = self.value(left), self.value(right)
                if UNKNOWN in values or not isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
                    return None
                return (values[0] == values[1]) is isinstance(operator, ast.Is | ast.Eq)
        value = self.value(test)
        return None if value is UNKNOWN or isinstance(value, _Options) else bool(value)

    def _lay_settings(self, statement: ast.For, words: tuple[Any, ...]) -> None:
        """A loop that takes apart each word at its ``=`` lays the words on what it changes."""
        given = tuple(word for word in words if isinstance(word, Argument))
        changed = {root_of(target) for target in targets_in(statement)} | set(updated_in(statement))
        for name in changed:
            laid = self._locals[-1].get(name)
            if isinstance(laid, LaidLayers) and given:
                laid.put(ArgumentsLayer(arguments=given))

    def _open(self, statement: ast.stmt) -> None:
        """Configurations that statements change which may run or not have a layer that is not read."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    name = root_of(target)
                    value = self._locals[-1].get(name)
                    if isinstance(value, LaidLayers) and isinstance(target, ast.Name):
                        self._locals[-1][name] = value.on(self._unread(node))
                    elif isinstance(value, LaidLayers):
                        value.put(self._unread(node))
                    elif name:
                        self._locals[-1][name] = UNKNOWN
            elif isinstance(node, ast.Call):
                for passed in map(
                    self.value, passed_to(node) if called_name(node) not in _ONLY_SHOWN else ()
                ):
                    self._handed = passed if isinstance(passed, LaidLayers) else self._handed

    def _assign(self, target: ast.expr, value: Any, statement: ast.stmt) -> None:
        names = self._locals[-1]
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Tuple):
            values = value if isinstance(value, tuple) and len(value) == len(target.elts) else None
            for number, part in enumerate(target.elts):
                self._assign(part, UNKNOWN if values is None else values[number], statement)
        elif isinstance(names.get(root_of(target)), LaidLayers):
            self._set(target, "", value, statement)

    def _set(self, target: ast.expr, key: str, value: Any, node: ast.expr | ast.stmt) -> None:
        """A key of a configuration gets a value."""
        name, path = root_of(target), (*key_of(target), *(split_key(key) if key else ()))
        laid = self._locals[-1].get(name)
        if not isinstance(laid, LaidLayers):
            return
        plain = isinstance(value, str | int | float | None) and bool(path) and None not in path
        tree = nested(tuple(map(str, path)), value) if plain else {}
        layer = ValueLayer(tree=tree, line=node.lineno) if plain else self._unread(node)
        laid.put(layer)
