"""Whole numbers that are not known yet: expressions of variables, with the interval they lie in.

Arithmetic on a :class:`Number` gives a number, a comparison a :class:`Condition`. Whoever asks whether a
condition holds makes the program that runs take both ways, see :mod:`calculator.paths`. What is not
defined here raises a :class:`TypeError`: a formula that cannot be written in JavaScript stops the build.

JavaScript computes in doubles, which are exact for whole numbers below 2**53. A number that may be larger
is refused when it is made.
"""

from collections.abc import Callable, Iterable, Iterator
from math import gcd
from typing import Any

EXACT = 2**53
"""Whole numbers below this are exact as doubles."""


class NotWritableError(TypeError):
    """Something that cannot be written in JavaScript."""


Interval = tuple[float, float]


class Number:
    """An expression: an operation and what it is applied to. Equal expressions are one object."""

    __slots__ = ("args", "high", "low", "op", "variables")

    op: str
    args: tuple[Any, ...]
    low: float
    high: float
    variables: frozenset[str]

    def __repr__(self) -> str:
        return f"{self.op}{self.args}"

    def __add__(self, other: object) -> Any:
        if isinstance(other, Fraction):
            return NotImplemented
        return add(self, as_number(other))

    __radd__ = __add__

    def __neg__(self) -> "Number":
        return multiply(self, constant(-1))

    def __sub__(self, other: object) -> "Number":
        return add(self, -as_number(other))

    def __rsub__(self, other: object) -> "Number":
        return add(as_number(other), -self)

    def __mul__(self, other: object) -> Any:
        if isinstance(other, Fraction):
            return NotImplemented
        if isinstance(other, (tuple, list, str)):
            return NotImplemented  # a sequence repeated; only possible for layers, see __index__
        if isinstance(other, float):
            above, below = other.as_integer_ratio()
            return Fraction.of(multiply(self, constant(above)), constant(below))
        return multiply(self, as_number(other))

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> "Number":
        return divide(self, as_number(other))

    def __rfloordiv__(self, other: object) -> "Number":
        return divide(as_number(other), self)

    def __truediv__(self, other: object) -> "Number | Fraction":
        return Fraction.of(self, as_number(other))

    def __rtruediv__(self, other: object) -> "Number | Fraction":
        return Fraction.of(as_number(other), self)

    def __ceil__(self) -> "Number":
        return self

    def __lt__(self, other: object) -> Any:
        return less(*_scaled(self, other))

    def __gt__(self, other: object) -> Any:
        return less(*reversed(_scaled(self, other)))

    def __le__(self, other: object) -> Any:
        return negated(less(*reversed(_scaled(self, other))))

    def __ge__(self, other: object) -> Any:
        return negated(less(*_scaled(self, other)))

    def __eq__(self, other: object) -> Any:
        if self is other:
            return True
        if not isinstance(other, (int, float, Number)):
            return False
        return equal(self, as_number(other))

    def __ne__(self, other: object) -> Any:
        if self is other:
            return False
        if not isinstance(other, (int, float, Number)):
            return True
        return negated(equal(self, as_number(other)))

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        return self.op == "kept" or bool(negated(equal(self, constant(0))))

    def __index__(self) -> int:
        return int(_index(self))


class Condition:
    """A comparison of two numbers, ``<`` or ``==``, or ``not`` of one."""

    __slots__ = ("args", "op", "variables")

    op: str
    args: tuple[Any, ...]
    variables: frozenset[str]

    def __bool__(self) -> bool:
        return _decide(self)

    def __repr__(self) -> str:
        return f"{self.op}{self.args}"


class Fraction:
    """A quotient of two numbers, exactly; something rounds it before it counts."""

    __slots__ = ("above", "below")

    above: Number
    below: Number

    @staticmethod
    def of(above: Number, below: Number) -> "Number | Fraction":
        """The quotient, which is a number again where the divisor is one or divides a factor."""
        if below.op == "constant" and above.op in ("constant", "*"):
            factor = above.args[0] if above.op == "constant" else _factor(above)
            common = gcd(factor, below.args[0])
            if common > 1:
                above, below = _reduced(above, common), constant(below.args[0] // common)
        if below is constant(1):
            return above
        made = object.__new__(Fraction)
        made.above, made.below = above, below
        return made

    def __mul__(self, other: object) -> "Number | Fraction":
        return Fraction.of(multiply(self.above, as_number(other)), self.below)

    __rmul__ = __mul__

    def __ceil__(self) -> Number:
        return -divide(-self.above, self.below)


def _scaled(number: Number, other: object) -> tuple[Number, Number]:
    """Two numbers that compare as a number and another one, which may be a fraction, do."""
    if isinstance(other, Fraction):
        return multiply(number, other.below), other.above
    return number, as_number(other)


# -- how numbers are made -----------------------------------------------------------------

_numbers: dict[tuple[Any, ...], Any] = {}
_decide: Callable[[Condition], bool]
_index: Callable[[Number], int]


def steer(decide: Callable[[Condition], bool], index: Callable[[Number], int]) -> None:
    """Say who decides conditions, and who says which element a number picks."""
    global _decide, _index
    _decide, _index = decide, index


def forget() -> None:
    """Forget all expressions, as before a new program is traced."""
    _numbers.clear()


def _made(op: str, args: tuple[Any, ...], interval: Interval | None = None) -> Any:
    key = (op, *(arg if isinstance(arg, (int, float, str)) else id(arg) for arg in args))
    known = _numbers.get(key)
    if known is not None:
        return known
    made: Any = object.__new__(Condition if interval is None else Number)
    made.op, made.args = op, args
    inside = [arg.variables for arg in args if isinstance(arg, (Number, Condition))]
    made.variables = inside[0] if len(inside) == 1 else frozenset().union(*inside)
    if interval is not None:
        made.low, made.high = interval
        if max(abs(made.low), abs(made.high)) >= EXACT:
            raise NotWritableError(f"may be as large as {max(abs(made.low), abs(made.high)):.3g}: {op}{args}")
    _numbers[key] = made
    return made


def symbol(variable: str, column: str, low: float, high: float) -> Number:
    """A number that somebody gives: a column of a table by what was chosen from it, or a field."""
    made: Number = _made("symbol", (variable, column), (low, high))
    made.variables = frozenset((variable,))
    return made


def constant(number: float) -> Number:
    """A number that is known."""
    made: Number = _made("constant", (number,), (number, number))
    return made


def as_number(number: object) -> Number:
    """A number that is known or not as a number that may not be known."""
    if isinstance(number, Number):
        return number
    if isinstance(number, Condition):
        return chosen(number, 1, 0)
    if isinstance(number, (int, float)) and number == int(number):
        return constant(int(number))
    raise NotWritableError(f"{number!r} is no whole number")


def _factor(product: Number) -> int:
    """The known factor of a product."""
    first = product.args[0]
    return int(first.args[0]) if first.op == "constant" else 1


def _reduced(number: Number, divisor: int) -> Number:
    if number.op == "constant":
        return constant(number.args[0] // divisor)
    first, rest = number.args
    return multiply(constant(first.args[0] // divisor), rest)


def _times(number: Number) -> tuple[int, Number]:
    """A number as a known factor and the rest."""
    if number.op == "*" and number.args[0].op == "constant":
        return int(number.args[0].args[0]), number.args[1]
    return 1, number


def add(left: Number, right: Number) -> Number:
    """The sum."""
    if left.op == "constant" and right.op == "constant":
        return constant(left.args[0] + right.args[0])
    if left.op == "constant":
        left, right = right, left
    if right is constant(0):
        return left
    if left.op == "+" and left.args[1].op == "constant" and right.op == "constant":
        return add(left.args[0], constant(left.args[1].args[0] + right.args[0]))
    (once, one), (again, other) = _times(left), _times(right)
    if one is other:
        return multiply(constant(once + again), one)
    made: Number = _made("+", (left, right), (left.low + right.low, left.high + right.high))
    return made


def multiply(left: Number, right: Number) -> Number:
    """The product; a known factor comes first."""
    if right.op == "constant":
        left, right = right, left
    if left.op == "constant":
        factor = left.args[0]
        if right.op == "constant":
            return constant(factor * right.args[0])
        if factor in (0, 1):
            return right if factor else constant(0)
        if right.op == "*" and right.args[0].op == "constant":
            return multiply(constant(factor * right.args[0].args[0]), right.args[1])
    elif left.op == "*" and left.args[0].op == "constant":
        return multiply(left.args[0], multiply(left.args[1], right))
    elif right.op == "*" and right.args[0].op == "constant":
        return multiply(right.args[0], multiply(left, right.args[1]))
    ends = [one * other for one in (left.low, left.high) for other in (right.low, right.high)]
    made: Number = _made("*", (left, right), (min(ends), max(ends)))
    return made


def divide(dividend: Number, divisor: Number) -> Number:
    """The quotient, rounded down; the divisor is positive.

    As doubles ``Math.floor(a / b)`` is exact: a quotient of whole numbers below 2**53 that is no whole
    number is further from the next one than rounding moves it.
    """
    if divisor.low <= 0:
        raise NotWritableError(f"divisor may be {divisor.low}: {divisor}")
    if divisor is constant(1):
        return dividend
    if dividend.op == "constant" and divisor.op == "constant":
        return constant(dividend.args[0] // divisor.args[0])
    ends = [one // other for one in (dividend.low, dividend.high) for other in (divisor.low, divisor.high)]
    made: Number = _made("floor", (dividend, divisor), (min(ends), max(ends)))
    return made


def largest(numbers: list[Any]) -> Number:
    """The largest of some numbers."""
    return _extreme("max", [as_number(number) for number in numbers])


def smallest(numbers: list[Any]) -> Number:
    """The smallest of some numbers."""
    return _extreme("min", [as_number(number) for number in numbers])


def _extreme(op: str, numbers: list[Number]) -> Number:
    first, *others = numbers
    for other in others:
        if other is first:
            continue
        above, below = (first, other) if op == "max" else (other, first)
        if above.low >= below.high:
            continue
        if below.low >= above.high:
            first = other
            continue
        pick = max if op == "max" else min
        interval = (pick(first.low, other.low), pick(first.high, other.high))
        first = _made(op, (first, other), interval)
    return first


def chosen(condition: Condition, yes: Any, no: Any) -> Number:
    """One number where a condition holds, else the other."""
    left, right = as_number(yes), as_number(no)
    if left is right:
        return left
    if condition.op == "not":
        condition, left, right = condition.args[0], right, left
    interval = (min(left.low, right.low), max(left.high, right.high))
    made: Number = _made("if", (condition, left, right), interval)
    return made


def kept_size(number: Any) -> Number:
    """A size that counts as there although it may be nothing."""
    size = as_number(number)
    made: Number = _made("kept", (size,), (size.low, size.high))
    return made


# -- comparisons ----------------------------------------------------------------------------


def less(left: Number, right: Number) -> Any:
    """Whether one number is smaller than another."""
    if left is right or left.low >= right.high:
        return False
    if left.high < right.low:
        return True
    return _made("<", (left, right))


def equal(left: Number, right: Number) -> Any:
    """Whether two numbers are the same."""
    if left is right:
        return True
    if left.high < right.low or right.high < left.low:
        return False
    if left.op == "constant":
        left, right = right, left
    return _made("==", (left, right))


def negated(condition: Any) -> Any:
    """The opposite."""
    if isinstance(condition, bool):
        return not condition
    if condition.op == "not":
        return condition.args[0]
    return _made("not", (condition,))


def together(expressions: Iterable[Any]) -> Any:
    """What stands for several expressions at once."""
    made: Any = object.__new__(Condition)
    made.op, made.variables = "together", frozenset()
    made.args = tuple(one for one in expressions if isinstance(one, (Number, Condition)))
    return made


def inside(expression: Any) -> Iterator[Any]:
    """What an expression is made of, itself last, each once."""
    seen: set[int] = set()
    pending: list[tuple[Any, bool]] = [(expression, False)]
    while pending:
        one, ready = pending.pop()
        if id(one) in seen:
            continue
        if ready:
            seen.add(id(one))
            yield one
            continue
        pending.append((one, True))
        pending += [(arg, False) for arg in reversed(one.args) if isinstance(arg, (Number, Condition))]
