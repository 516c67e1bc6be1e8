"""What a condition of the trainer's code comes to with the values of a launch; nothing of it is executed.

Understood are keys of the configuration, read as attributes or by ``get`` with a default, constants,
comparisons with ``==``, ``is``, ``in`` and the signs of order, and what ``not``, ``and`` and ``or`` make of
these. Whatever else stands in a condition leaves it open.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from enum import Enum

from msgspec import Struct


class Open(Enum):
    """What is not known of a value."""

    VALUE = "open"


OPEN = Open.VALUE

KeyOf = Callable[[ast.expr], tuple[str, ...]]
"""The key of the configuration that a chain of attributes names; empty for anything else."""

_ORDERS: Mapping[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: lambda left, right: left is right if right is None else left == right,
    ast.IsNot: lambda left, right: left is not right if right is None else left != right,
    ast.In: lambda left, right: operator.contains(right, left),  # type: ignore[arg-type]
    ast.NotIn: lambda left, right: not operator.contains(right, left),  # type: ignore[arg-type]
    ast.Lt: operator.lt,  # type: ignore[dict-item]
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
}


class SureConditions(Struct, frozen=True, kw_only=True):
    """The conditions of one function under one configuration.

    Args:
        key_of: the key that an expression of the function names.
        value_of: the value of a key, or what is handed with it where the configuration has no such key; a
            section is a mapping.
    """

    key_of: KeyOf
    value_of: Callable[[tuple[str, ...], object], object]

    def holds(self, test: ast.expr) -> bool | None:
        """Whether a condition holds; None where that is open."""
        value = self.value(test)
        return None if value is OPEN else bool(value)

    def value(self, node: ast.expr) -> object:
        """The value of an expression, ``OPEN`` where it is not known."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            values = [self.value(part) for part in node.elts]
            return OPEN if OPEN in values else values
        if isinstance(node, ast.BoolOp):
            return self._joined(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            held = self.holds(node.operand)
            return OPEN if held is None else not held
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._compared(self.value(node.left), node.ops[0], self.value(node.comparators[0]))
        return self._of_key(node)

    def _of_key(self, node: ast.expr) -> object:
        if isinstance(node, ast.Attribute):
            key = self.key_of(node)
            return self.value_of(key, OPEN) if key else OPEN
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return OPEN
        *section, method = self.key_of(node.func) or ("",)
        words = [self.value(part) for part in node.args]
        if method != "get" or node.keywords or not words or not isinstance(words[0], str) or len(words) > 2:
            return OPEN
        default = words[1] if len(words) > 1 else None
        return self.value_of((*section, words[0]), default)

    def _joined(self, node: ast.BoolOp) -> object:
        """Whether all parts hold, or one does: one part that decides is enough."""
        decides = isinstance(node.op, ast.Or)
        held = [self.holds(part) for part in node.values]
        if decides in held:
            return decides
        return OPEN if None in held else not decides

    def _compared(self, left: object, order: ast.cmpop, right: object) -> object:
        compare = _ORDERS.get(type(order))
        if compare is None or OPEN in (left, right):
            return OPEN
        try:
            return bool(compare(left, right))
        except TypeError:
            return OPEN
