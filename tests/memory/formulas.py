"""Evaluates the formulas of terms exactly, without running any code."""

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from tuner.memory.ledger.formula import FormulaError, tokens

_FUNCTIONS: dict[str, Callable[..., Fraction | int]] = {
    "max": max,
    "min": min,
    "ceil": math.ceil,
    "floor": math.floor,
}
_ROUNDINGS = ("ceil", "floor")


def evaluate(formula: str, symbols: Iterable[tuple[str, float]]) -> Fraction:
    """The value of a formula, exactly; a decimal number such as 0.85 is 85/100.

    Raises:
        FormulaError: it cannot be read, or lacks a number.
    """
    reader = _Reader(formula, {name: Fraction(str(number)) for name, number in symbols})
    return reader.value()


class _Reader:
    """Reads a formula from left to right and computes as it goes."""

    def __init__(self, formula: str, numbers: dict[str, Fraction]) -> None:
        self.formula = formula
        self.words: Sequence[str] = (*tokens(formula), "")  # the empty word is the end
        self.numbers = numbers
        self.position = 0

    def value(self) -> Fraction:
        """The whole text."""
        total = self._sum()
        if self._next:
            raise self._error(f"{self._next!r} is not expected")
        return total

    @property
    def _next(self) -> str:
        return self.words[self.position]

    def _take(self, *wanted: str) -> str:
        """The next word when it is one of ``wanted``, which may be all of them; else nothing."""
        word = self._next
        if wanted and word not in wanted:
            return ""
        self.position += 1
        return word

    def _sum(self) -> Fraction:
        total = self._product()
        while sign := self._take("+", "-"):
            total += self._product() * (1 if sign == "+" else -1)
        return total

    def _product(self) -> Fraction:
        product = self._factor()
        while self._take("*"):
            product *= self._factor()
        while self._take("/"):
            divisor = self._factor()
            if not divisor:
                raise self._error("division by zero")
            product /= divisor
        if self._next == "*":
            raise self._error("a product goes on after a division: put parentheses")
        return product

    def _factor(self) -> Fraction:
        word = self._take()
        if word == "(":
            inside = self._sum()
            self._close()
            return inside
        if word in _FUNCTIONS:
            return self._call(word)
        if word[:1].isdigit():
            return Fraction(word)
        if word not in self.numbers:
            raise self._error(f"no number for {word!r}" if word else "it ends too early")
        return self.numbers[word]

    def _call(self, function: str) -> Fraction:
        arguments = self._arguments()
        if function in _ROUNDINGS and len(arguments) != 1:
            raise self._error(f"{function} takes one number")
        if function not in _ROUNDINGS and len(arguments) < 2:
            raise self._error(f"{function} takes two numbers or more")
        return Fraction(_FUNCTIONS[function](*arguments))

    def _arguments(self) -> list[Fraction]:
        if not self._take("("):
            raise self._error("a function without parentheses")
        arguments = [self._sum()]
        while self._take(","):
            arguments.append(self._sum())
        self._close()
        return arguments

    def _close(self) -> None:
        if not self._take(")"):
            raise self._error("a parenthesis is left open")

    def _error(self, what: str) -> FormulaError:
        return FormulaError(f"{self.formula!r}: {what}")
