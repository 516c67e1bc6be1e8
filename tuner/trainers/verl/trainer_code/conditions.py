"""What an expression of the trainer's code comes to, as far as it is known; nothing of it is executed.

Operations are followed here: arithmetic, comparisons, ``not``, ``and``, ``or``, choices and lists. What
names, attributes and calls stand for, whoever asks says: a program that is followed, or the keys of a
configuration. What is not followed is unknown, and so is what rests on it: ``False and unknown`` is false,
``True and unknown`` is unknown.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Protocol

from tuner.trainers.verl.trainer_code.program_values import (
    UNKNOWN,
    DefinedClass,
    DefinedFunction,
    Instance,
    RoleName,
    RoleTable,
    Section,
    Value,
    is_constant,
)

_COMPARED: Mapping[type[ast.cmpop], Callable[[Value, Value], Value]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_COMPUTED: Mapping[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_MOST_ITEMS = 4096  # of a list that is made by repeating one


class Operands(Protocol):
    """What an expression is made of that is no operation."""

    def operand(self, node: ast.expr) -> Value:
        """What a name, an attribute, a subscript, a dictionary or a call stands for."""

    def has(self, holder: Value, value: Value) -> Value:
        """Whether a value is in something that is no constant of Python."""


def value_of(node: ast.expr, operands: Operands) -> Value:
    """The value of an expression."""
    follow = _FOLLOWED.get(type(node))
    return operands.operand(node) if follow is None else follow(node, operands)


def truth_of(value: Value) -> Value:
    """Whether a value counts as true."""
    if isinstance(value, Instance | DefinedClass | DefinedFunction | RoleName):
        return True
    return bool(value) if is_constant(value) else UNKNOWN


def holds(test: ast.expr, operands: Operands) -> bool | None:
    """Whether a condition holds; None where that is open."""
    truth = truth_of(value_of(test, operands))
    return None if truth is UNKNOWN else bool(truth)


def _both(node: ast.BoolOp, operands: Operands) -> Value:
    """``and`` and ``or``, whose value is that of the part that decides."""
    decides = isinstance(node.op, ast.Or)
    known = True
    value: Value = UNKNOWN
    for part in node.values:
        value = value_of(part, operands)
        truth = truth_of(value)
        if truth is decides:
            return value if known else decides
        known = known and truth is not UNKNOWN
    return value if known else UNKNOWN


def _unary(node: ast.UnaryOp, operands: Operands) -> Value:
    value = value_of(node.operand, operands)
    if isinstance(node.op, ast.Not):
        truth = truth_of(value)
        return UNKNOWN if truth is UNKNOWN else not truth
    return -value if isinstance(node.op, ast.USub) and isinstance(value, int | float) else UNKNOWN


def _arithmetic(node: ast.BinOp, operands: Operands) -> Value:
    """A sum, difference, product or quotient of numbers, and a list several times."""
    first, second = value_of(node.left, operands), value_of(node.right, operands)
    compute = _COMPUTED.get(type(node.op))
    if compute is None or not isinstance(second, int | float):
        return UNKNOWN
    if isinstance(first, list):
        if not isinstance(node.op, ast.Mult) or not isinstance(second, int):
            return UNKNOWN
        return first * second if len(first) * second <= _MOST_ITEMS else UNKNOWN
    if not isinstance(first, int | float):
        return UNKNOWN
    try:
        return compute(first, second)
    except ArithmeticError:
        return UNKNOWN


def _compare(node: ast.Compare, operands: Operands) -> Value:
    if len(node.ops) != 1:
        return UNKNOWN
    first, second = value_of(node.left, operands), value_of(node.comparators[0], operands)
    kind = node.ops[0]
    if isinstance(kind, ast.In | ast.NotIn):
        there = _contains(second, first, operands)
        return there if there is UNKNOWN or isinstance(kind, ast.In) else not there
    if isinstance(kind, ast.Is | ast.IsNot):
        same = _is_identical(first, second)
        return same if same is UNKNOWN or isinstance(kind, ast.Is) else not same
    if not (is_constant(first) and is_constant(second)):
        return UNKNOWN
    try:
        return bool(_COMPARED[type(kind)](first, second))
    except TypeError:
        return UNKNOWN


def _contains(holder: Value, value: Value, operands: Operands) -> Value:
    if not isinstance(holder, str | list | tuple | Mapping):
        return operands.has(holder, value)
    if not is_constant(value):
        return UNKNOWN
    if isinstance(holder, str):
        return value in holder if isinstance(value, str) else UNKNOWN
    if any(is_constant(it) and it == value for it in holder):
        return True
    return False if is_constant(list(holder)) else UNKNOWN


def _is_identical(first: Value, second: Value) -> Value:
    """``is`` between a value and one of the constants that there is one of."""
    if second is not None and not isinstance(second, bool):
        return UNKNOWN
    if isinstance(first, Section | Instance | RoleTable | DefinedClass | DefinedFunction | RoleName):
        return False
    return first is second if is_constant(first) else UNKNOWN


def _choice(node: ast.IfExp, operands: Operands) -> Value:
    truth = truth_of(value_of(node.test, operands))
    return UNKNOWN if truth is UNKNOWN else value_of(node.body if truth else node.orelse, operands)


def _list(node: ast.List | ast.Tuple | ast.Set, operands: Operands) -> Value:
    return [value_of(part, operands) for part in node.elts]


_FOLLOWED: Mapping[type[ast.expr], Callable[..., Value]] = {
    ast.Constant: lambda node, operands: node.value,
    ast.BoolOp: _both,
    ast.UnaryOp: _unary,
    ast.BinOp: _arithmetic,
    ast.Compare: _compare,
    ast.IfExp: _choice,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
}
