"""Arithmetic of the shell on whole numbers: ``$((a * 2))``, ``((a > 3))``.

Source: GNU Bash manual, "Shell Arithmetic": 64-bit integers that wrap around.
"""

from collections.abc import Callable

from tuner.inputs.shell.source import Node

_MOST_BITS = 64
_DEEPEST = 64
_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<<": lambda a, b: a << (b % _MOST_BITS),
    ">>": lambda a, b: a >> (b % _MOST_BITS),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
}

Number = int | None
"""A value of arithmetic; None where an operand is unknown or the shell would stop with an error."""


class Arithmetic:
    """Evaluates the nodes of one expression.

    Args:
        read: the value of a variable or of an expansion; None where it is unknown.
        write: assigns a variable.
        text_of: the text of a node.
    """

    def __init__(
        self,
        read: Callable[[Node], Number],
        write: Callable[[Node, Number], None],
        text_of: Callable[[Node], str],
    ) -> None:
        self._read, self._write, self._text_of = read, write, text_of
        self._depth = 0

    def value(self, node: Node) -> Number:
        """The value of an expression."""
        self._depth += 1
        try:
            return _wrapped(self._value(node)) if self._depth <= _DEEPEST else None
        finally:
            self._depth -= 1

    def _value(self, node: Node) -> Number:
        kind = node.type
        if kind == "number":
            return parsed(self._text_of(node))
        if kind == "binary_expression":
            return self._binary(node)
        if kind == "ternary_expression":
            condition = self.value(node.child_by_field_name("condition"))
            if condition is None:
                return None
            return self.value(node.child_by_field_name("consequence" if condition else "alternative"))
        if kind == "unary_expression":
            return self._unary(node)
        if kind == "postfix_expression":
            return self._step(node.children[0], node.children[-1].type, before=False)
        if kind == "parenthesized_expression":
            return self.value(node.named_children[0]) if node.named_children else None
        return self._read(node)

    def _binary(self, node: Node, sign: str = "") -> Number:
        """Two operands; a sign is that of the first one.

        The grammar lets a sign take the whole sum behind it, where the shell has it bind closer than any
        operator. Behind another operator that cannot be put right here: the value is unknown.
        """
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        if right.type == "unary_expression" and right.children[-1].type == "binary_expression":
            return None
        if operator.endswith("=") and operator not in ("==", "!=", "<=", ">="):
            operand = self.value(right)
            if operator != "=":
                operand = applied(operator[:-1], self.value(left), operand)
            self._write(left, _wrapped(operand))
            return operand
        first = self._signed(left, sign) if sign else self.value(left)
        if operator in ("&&", "||"):
            if first is None:
                return None
            if bool(first) is (operator == "||"):
                return int(bool(first))
            second = self.value(right)
            return None if second is None else int(bool(second))
        return applied(operator, first, self.value(right))

    def _unary(self, node: Node) -> Number:
        operator, operand = node.children[0].type, node.children[-1]
        if operator in ("++", "--"):
            return self._step(operand, operator, before=True)
        return self._signed(operand, self._text_of(node)[0])

    def _signed(self, operand: Node, sign: str) -> Number:
        if operand.type == "binary_expression":
            return _wrapped(self._binary(operand, sign))
        value = self.value(operand)
        if value is None:
            return None
        return {"-": -value, "+": value, "!": int(not value), "~": ~value}.get(sign)

    def _step(self, variable: Node, operator: str, *, before: bool) -> Number:
        value = self.value(variable)
        after = None if value is None else value + (1 if operator == "++" else -1)
        self._write(variable, after)
        return after if before else value


def applied(operator: str, left: Number, right: Number) -> Number:
    """One operation; None where the shell would stop with an error."""
    if left is None or right is None:
        return None
    if operator in ("/", "%"):
        if right == 0:
            return None
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if operator == "/" else left - quotient * right
    if operator == "**":
        return left**right if 0 <= right <= _MOST_BITS else None
    operation = _BINARY.get(operator)
    return None if operation is None else operation(left, right)


def parsed(text: str) -> Number:
    """A literal: decimal, octal with a leading 0, hexadecimal with 0x; an empty text is 0."""
    text = text.strip()
    if len(text) > _MOST_BITS:
        return None
    try:
        if text.lower().lstrip("+-").startswith("0x"):
            return int(text, 16)
        bare = text.lstrip("+-")
        return int(text, 8) if bare.startswith("0") and bare.isdigit() and len(bare) > 1 else int(text or "0")
    except ValueError:
        return None


def _wrapped(value: Number) -> Number:
    if value is None:
        return None
    half = 1 << (_MOST_BITS - 1)
    return (value + half) % (2 * half) - half
