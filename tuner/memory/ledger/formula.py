"""Formulas of terms as text, and the arithmetic that writes them: a function of symbols gives its own text.

A formula is written as on paper, in the names of its symbols: neighbours are multiplied
("T V b"), ``+``, ``-``, ``/`` and parentheses mean what they mean, and there are ``max``, ``min``,
``ceil`` and ``floor``. Nothing follows a division within one product, because "a / b c" is read in
two ways.

An :class:`Expression` is a sum of products of names. It takes part in ``+ - * //`` and :func:`math.ceil`
like a number, has no value, and writes itself in the notation of :mod:`tuner.memory.ledger.formula`.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?)|([A-Za-z]\w*)|([-+*/(),]))")
_NAME = re.compile(r"[A-Za-z]\w*")
FUNCTIONS = ("max", "min", "ceil", "floor")


Product = tuple[str, ...]


class FormulaError(ValueError):
    """A text that is no formula."""


@lru_cache(maxsize=1024)
def names(formula: str) -> tuple[str, ...]:
    """The symbols of a formula, each once, in the order of their first appearance."""
    return tuple([word for word in dict.fromkeys(_NAME.findall(formula)) if word not in FUNCTIONS])


@lru_cache(maxsize=1024)
def tokens(formula: str) -> tuple[str, ...]:
    """Numbers, names, operators and parentheses, with the unwritten products as ``*``."""
    words: list[str] = []
    position = 0
    text = formula.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise FormulaError(f"{formula!r}: {text[position:].strip()[:1]!r} is no part of a formula")
        word = match[match.lastindex or 0]
        if words and _ends_factor(words[-1]) and _begins_factor(word):
            words.append("*")
        words.append(word)
        position = match.end()
    return tuple(words)


def _begins_factor(word: str) -> bool:
    return word == "(" or word[0].isalnum()


def _ends_factor(word: str) -> bool:
    return word == ")" or (word[0].isalnum() and word not in FUNCTIONS)


class Expression:
    """A formula: products of factors, and how often each product is taken."""

    __slots__ = ("products",)

    def __init__(self, products: dict[Product, int]) -> None:
        self.products = {product: times for product, times in products.items() if times}

    @classmethod
    def symbol(cls, name: str) -> "Expression":
        """A name."""
        return cls({(name,): 1})

    @classmethod
    def constant(cls, number: int) -> "Expression":
        """A number that has no name."""
        return cls({(): number})

    def __str__(self) -> str:
        text = ""
        for product, times in self.products.items():
            coefficient = () if abs(times) == 1 and product else (str(abs(times)),)
            sign = (" - " if times < 0 else " + ") if text else ("0 - " if times < 0 else "")
            text += sign + " ".join((*coefficient, *product))
        return text or "0"

    @property
    def is_one_product(self) -> bool:
        """Whether it stands as a factor without parentheses."""
        return len(self.products) == 1

    def factor(self) -> tuple[Product, int]:
        """The formula as one product, a sum in parentheses."""
        if self.is_one_product:
            return next(iter(self.products.items()))
        return (f"({self})",), 1

    def __add__(self, other: object) -> "Expression":
        addend = _expression(other)
        if addend is None:
            return NotImplemented
        products = dict(self.products)
        for product, times in addend.products.items():
            products[product] = products.get(product, 0) + times
        return Expression(products)

    __radd__ = __add__

    def __neg__(self) -> "Expression":
        return self * -1

    def __sub__(self, other: object) -> "Expression":
        subtrahend = _expression(other)
        return NotImplemented if subtrahend is None else self + -subtrahend

    def __rsub__(self, other: object) -> "Expression":
        minuend = _expression(other)
        return NotImplemented if minuend is None else minuend - self

    def __mul__(self, other: object) -> "Expression":
        if isinstance(other, int):
            times = {product: times * other for product, times in self.products.items()}
            return Expression(times if len(times) < 2 or other == -1 else {self.factor()[0]: other})
        if not isinstance(other, Expression):
            return NotImplemented
        if not (self.products and other.products):
            return Expression({})
        (left, once), (right, again) = self.factor(), other.factor()
        return Expression({(*left, *right): once * again})

    __rmul__ = __mul__

    def __floordiv__(self, other: object) -> "Expression":
        divisor = _expression(other)
        if divisor is None:
            return NotImplemented
        if max(self.products.values(), default=0) < 0:  # -(-a // b) rounds up
            return -rounded("ceil", -self, divisor)
        return rounded("floor", self, divisor)

    def __rfloordiv__(self, other: object) -> "Expression":
        dividend = _expression(other)
        return NotImplemented if dividend is None else dividend // self

    def __ceil__(self) -> "Expression":
        return Expression({(f"ceil({self})",): 1})


def rounded(rounding: str, dividend: Expression, divisor: Expression) -> Expression:
    """A division that is rounded, ``"ceil"`` or ``"floor"``; by one, the dividend itself."""
    if divisor.products == {(): 1}:
        return dividend
    above = str(dividend) if dividend.is_one_product else f"({dividend})"
    factors, times = divisor.factor()
    words = factors if times == 1 and factors else (str(times), *factors)
    below = words[0] if len(words) == 1 else f"({' '.join(words)})"
    return Expression({(f"{rounding}({above} / {below})",): 1})


def _expression(number: object) -> Expression | None:
    """A number as a formula; None of what is neither."""
    if isinstance(number, Expression):
        return number
    return Expression.constant(number) if isinstance(number, int) else None


# Typed as the numbers that callers compute with; a formula takes their place only when it is written.


def largest(*numbers: int) -> int:
    """The largest of some numbers, ``max(a, b)`` of formulas."""
    return _chosen("max", numbers)


def smallest(*numbers: int) -> int:
    """The smallest of some numbers, ``min(a, b)`` of formulas."""
    return _chosen("min", numbers)


def _chosen(function: str, numbers: tuple[Any, ...]) -> int:
    if any(isinstance(number, Expression) for number in numbers):
        listed = ", ".join(str(number) for number in numbers)
        chosen: Any = Expression({(f"{function}({listed})",): 1})
    else:
        chosen = max(numbers) if function == "max" else min(numbers)
    number: int = chosen
    return number


def ceil_div(dividend: int, divisor: int) -> int:
    """A quotient rounded up, exact for whole numbers of any size."""
    return -(-dividend // divisor)


def as_written(share: float) -> Fraction:
    """A share as a configuration spells it, exactly: 0.1 is a tenth."""
    number: Any = share
    exact: Any = number if isinstance(number, Expression) else _fraction(share)
    fraction: Fraction = exact
    return fraction


@lru_cache(maxsize=256)
def _fraction(number: float) -> Fraction:
    return Fraction(str(number))
