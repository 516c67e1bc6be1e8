"""Values of Python expressions that are known without running anything: texts, and paths beside the file."""

import ast
from posixpath import dirname, join, normpath

from msgspec import Struct


class UnsettledValue(Struct, frozen=True):
    """The value of an expression that only a run would tell."""


UNKNOWN = UnsettledValue()
Value = str | int | None | UnsettledValue

_SAME = frozenset({"Path", "PurePath", "str", "abspath", "realpath", "normpath", "fspath", "expanduser"})
_SAME_METHODS = frozenset({"resolve", "absolute", "as_posix", "expanduser"})


class Constants:
    """The texts that a module's names stand for, and the file that it stands in.

    Args:
        tree: the module.
        file: its absolute path, which ``__file__`` stands for.
    """

    def __init__(self, tree: ast.Module, file: str) -> None:
        self._names: dict[str, Value] = {"__file__": file}
        for statement in tree.body:
            if isinstance(statement, ast.Assign):
                targets, value = statement.targets, statement.value
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                targets, value = [statement.target], statement.value
            else:
                continue
            for target in targets:
                if isinstance(target, ast.Name):
                    self._names[target.id] = self.value(value)

    def value(self, node: ast.expr) -> Value:
        """What an expression stands for."""
        match node:
            case ast.Constant(value=str() | int() | None as value):
                return value
            case ast.Name():
                return self._names.get(node.id, UNKNOWN)
            case ast.JoinedStr():
                return self._joined(node)
            case ast.BinOp():
                return self._sum(node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript():
                return self._item(node)
            case ast.Call():
                return self._called(node)
        return UNKNOWN

    def _joined(self, node: ast.JoinedStr) -> Value:
        parts = [
            self.value(part.value if isinstance(part, ast.FormattedValue) else part) for part in node.values
        ]
        texts = [part for part in parts if isinstance(part, str)]
        return "".join(texts) if len(texts) == len(parts) else UNKNOWN

    def _sum(self, node: ast.BinOp) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if not (isinstance(left, str) and isinstance(right, str)):
            return UNKNOWN
        if isinstance(node.op, ast.Div):
            return join(left, right)
        return left + right if isinstance(node.op, ast.Add) else UNKNOWN

    def _attribute(self, node: ast.Attribute) -> Value:
        path = self.value(node.value)
        return dirname(path) if node.attr == "parent" and isinstance(path, str) else UNKNOWN

    def _item(self, node: ast.Subscript) -> Value:
        """``Path(__file__).parents[1]``."""
        number = self.value(node.slice)
        if not (isinstance(node.value, ast.Attribute) and node.value.attr == "parents"):
            return UNKNOWN
        path = self.value(node.value.value)
        if not (isinstance(path, str) and isinstance(number, int) and 0 <= number < path.count("/")):
            return UNKNOWN
        for _level in range(number + 1):
            path = dirname(path)
        return path

    def _called(self, node: ast.Call) -> Value:
        name = called_name(node)
        if isinstance(node.func, ast.Attribute) and name in (*_SAME_METHODS, "joinpath"):
            path = self.value(node.func.value)
            if isinstance(path, str):
                return path if name in _SAME_METHODS else self._of_parts([path], node.args)
        if name in _SAME or name == "join":
            return self._of_parts([], node.args)
        if name == "dirname" and len(node.args) == 1:
            path = self.value(node.args[0])
            return dirname(path) if isinstance(path, str) else UNKNOWN
        return UNKNOWN

    def _of_parts(self, parts: list[str], arguments: list[ast.expr]) -> Value:
        for argument in arguments:
            value = self.value(argument)
            if not isinstance(value, str):
                return UNKNOWN
            parts.append(value)
        return normpath(join(*parts)) if parts else UNKNOWN


def called_name(node: ast.Call) -> str:
    """The last part of the name of what is called: "main" of ``hydra.main(...)``."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
