"""Formulas that arithmetic on symbols writes, and what it refuses."""

from math import ceil

import pytest

from tuner.memory.ledger.formula import Expression, ceil_div, largest, smallest

A, B, C = map(Expression.symbol, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (A + B, "a + b"),
        (A + 2, "a + 2"),
        (2 + A, "a + 2"),
        (A - B, "a - b"),
        (A - 3, "a - 3"),
        (3 - A, "3 - a"),
        (-A, "0 - a"),
        (B - 2 * A, "b - 2 a"),
        (A - A, "0"),
        (A + A, "2 a"),
        (A * B, "a b"),
        (3 * A * B, "3 a b"),
        ((A + B) * C, "(a + b) c"),
        (2 * (A + B), "2 (a + b)"),
        (-1 * (A + B), "0 - a - b"),
        ((2 * A) * (3 * B), "6 a b"),
        ((A - A) * B, "0"),
        (A * (B - B), "0"),
        (A // B, "floor(a / b)"),
        (7 // A, "floor(7 / a)"),
        (A // 2, "floor(a / 2)"),
        (A // 1, "a"),
        ((A + B) // C, "floor((a + b) / c)"),
        (A // (2 * B), "floor(a / (2 b))"),
        (A // (B + C), "floor(a / (b + c))"),
        (ceil_div(A, B), "ceil(a / b)"),  # type: ignore[arg-type]
        (ceil_div(A + B, 4), "ceil((a + b) / 4)"),  # type: ignore[arg-type]
        (ceil(A), "ceil(a)"),
        (largest(A, 2), "max(a, 2)"),  # type: ignore[arg-type]
        (smallest(A, B), "min(a, b)"),  # type: ignore[arg-type]
        (Expression.constant(-2) + A, "0 - 2 + a"),
        (Expression.constant(1), "1"),
    ],
)
def test_arithmetic_writes_itself(formula: object, text: str) -> None:
    assert str(formula) == text


@pytest.mark.parametrize(("numbers", "most", "least"), [((3, 7, 5), 7, 3), ((2,), 2, 2)])
def test_numbers_are_compared_as_they_are(numbers: tuple[int, ...], most: int, least: int) -> None:
    assert (largest(*numbers), smallest(*numbers)) == (most, least)


@pytest.mark.parametrize(
    "operation", ["__add__", "__sub__", "__rsub__", "__mul__", "__floordiv__", "__rfloordiv__"]
)
def test_what_is_no_whole_number_is_refused(operation: str) -> None:
    assert getattr(A, operation)("b") is NotImplemented
