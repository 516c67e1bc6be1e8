"""What the code of a copy multiplies, and by which keys: repeated batches, and sizes scaled in place.

Only products of keys and numbers are understood, whole divisions among them. A branch whose condition the
settings decide is followed or left; of any other both ways are.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

Value = Callable[[str], Any]
"""The value of a key as the code spells it behind its configuration; None where there is none."""


class Multiplied(Struct, frozen=True, kw_only=True):
    """A statement that multiplies something by keys of the configuration."""

    target: str  # the key that is scaled, as the code spells it; empty where a batch is repeated
    keys: tuple[str, ...]  # as the code spells them
    factor: int


def bodies_that_repeat(tree: ast.Module) -> list[list[ast.stmt]]:
    """The bodies of functions that repeat something while the trainer trains."""
    return [
        body
        for body in _functions(tree, lambda name: "validat" not in name)
        if any(_repeat_times(node) is not None for statement in body for node in ast.walk(statement))
    ]


def repeated(bodies: Iterable[Sequence[ast.stmt]], value: Value) -> Iterator[Multiplied]:
    """The calls of ``batch.repeat(repeat_times=...)`` that may be run."""
    for body in bodies:
        for statement in _followed(body, value):
            for node in ast.walk(statement):
                times = _repeat_times(node)
                if times is not None:
                    yield from _multiplied("", times, value)


def starts_of_workers(tree: ast.Module) -> list[list[ast.stmt]]:
    """The bodies of what is called while a worker is made."""
    workers = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return [body for worker in workers for body in _functions(worker, _called_at_start(worker).__contains__)]


def scaled(starts: Iterable[Sequence[ast.stmt]], value: Value) -> Iterator[Multiplied]:
    """The sizes that workers multiply in place while they are made."""
    for body in starts:
        for statement in _followed(body, value):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Mult):
                yield from _multiplied(_key(statement.target) or "?", statement.value, value)


def _multiplied(target: str, expression: ast.expr, value: Value) -> Iterator[Multiplied]:
    factor = _number(expression, value)
    keys = tuple(key for node in ast.walk(expression) if (key := _key(node)) is not None)
    if factor is not None and factor > 0 and keys:
        yield Multiplied(target=target, keys=keys, factor=factor)


def _functions(tree: ast.AST, wanted: Callable[[str], bool]) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and wanted(node.name):
            yield node.body


def _called_at_start(worker: ast.ClassDef) -> set[str]:
    """``__init__`` and the methods that it calls itself."""
    start = next((node for node in worker.body if getattr(node, "name", "") == "__init__"), None)
    calls = (node.func for node in ast.walk(start) if isinstance(node, ast.Call)) if start else ()
    return {"__init__", *(func.attr for func in calls if isinstance(func, ast.Attribute))}


def _followed(body: Sequence[ast.stmt], value: Value) -> Iterator[ast.stmt]:
    """The statements without others in them that may be run."""
    for statement in body:
        if isinstance(statement, ast.If):
            holds = _holds(statement.test, value)
            yield from _followed(statement.body, value) if holds is not False else ()
            yield from _followed(statement.orelse, value) if holds is not True else ()
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        elif getattr(statement, "body", None):
            yield from _followed(statement.body, value)  # type: ignore[attr-defined]
        else:
            yield statement


def _holds(test: ast.expr, value: Value) -> bool | None:
    """Whether a condition holds by the settings; None where something else decides."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _holds(test.operand, value)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [_holds(part, value) for part in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        key, other = _key(test.left), test.comparators[0]
        if key is None or not (isinstance(other, ast.Constant) and other.value is None):
            return None
        return (value(key) is None) == isinstance(test.ops[0], ast.Is)
    key = _key(test)
    return None if key is None else bool(value(key))


def _number(expression: ast.expr, value: Value) -> int | None:
    if isinstance(expression, ast.BinOp):
        left, right = _number(expression.left, value), _number(expression.right, value)
        if left is None or right is None:
            return None
        if isinstance(expression.op, ast.Mult):
            return left * right
        return left // right if isinstance(expression.op, ast.FloorDiv) and right else None
    if isinstance(expression, ast.Constant):
        return expression.value if type(expression.value) is int else None
    key = _key(expression)
    found = None if key is None else value(key)
    return found if type(found) is int else None


def _repeat_times(node: ast.AST) -> ast.expr | None:
    """By what a call repeats a batch."""
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "repeat"
    ):
        return None
    return next((keyword.value for keyword in node.keywords if keyword.arg == "repeat_times"), None)


def _key(node: ast.AST) -> str | None:
    """The key behind ``self.config`` or ``config`` that a chain of attributes names."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    chain = [node.id, *reversed(names)]
    chain = chain[1:] if chain[0] == "self" else chain
    return ".".join(chain[1:]) if chain[:1] == ["config"] and len(chain) > 1 else None
