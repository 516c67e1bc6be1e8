from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory.formulas import evaluate
from tuner.memory.ledger.formula import FormulaError, names, tokens

NUMBERS = (("T", 7), ("V", 5), ("b_c", 2), ("W", 3), ("f", 0.85))


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("T V b_c", 70),
        ("2 T", 14),
        ("T (V + b_c) W", 147),
        ("T V / W", Fraction(35, 3)),
        ("T / V / b_c", Fraction(7, 10)),
        ("T / (V b_c)", Fraction(7, 10)),
        ("b_c ceil(T / W)", 6),
        ("floor(T / W) V", 10),
        ("max(T, V W) - min(T, V)", 10),
        ("T - V - b_c", 0),
        ("T - (V - b_c)", 4),
        ("2 * T * V", 70),
        ("f T", Fraction(595, 100)),
        ("0.5 T", Fraction(7, 2)),
        ("max(T, V,W)b_c", 14),
    ],
)
def test_values(formula: str, value: Fraction) -> None:
    assert evaluate(formula, NUMBERS) == value


@pytest.mark.parametrize(
    ("formula", "complaint"),
    [
        ("T V / W b_c", "after a division"),
        ("T x", "no number for 'x'"),
        ("T +", "too early"),
        ("", "too early"),
        ("(T", "left open"),
        ("max T", "without parentheses"),
        ("max(T)", "two numbers"),
        ("ceil(T, V)", "one number"),
        ("T)", "not expected"),
        ("T ** V", "no number for"),
        ("__import__('os')", "no part of a formula"),
        ("T.real", "no part of a formula"),
        ("T / (V - V)", "division by zero"),
    ],
)
def test_what_is_no_formula_is_refused(formula: str, complaint: str) -> None:
    with pytest.raises(FormulaError, match=complaint):
        evaluate(formula, (*NUMBERS, ("V", 5)))


def test_products_that_are_not_written_are_tokens() -> None:
    assert tokens("(c + p) b_c U_l") == ("(", "c", "+", "p", ")", "*", "b_c", "*", "U_l")
    assert tokens("2 ceil(N / W)") == ("2", "*", "ceil", "(", "N", "/", "W", ")")


def test_names_leave_out_functions_and_repetitions() -> None:
    assert names("max(a, b_1) (a + ceil(c / 2))") == ("a", "b_1", "c")


@given(st.lists(st.integers(1, 10**12), min_size=2, max_size=5), st.integers(1, 10**6))
def test_large_products_are_exact(factors: list[int], divisor: int) -> None:
    symbols = [(f"x_{i}", factor) for i, factor in enumerate(factors)]
    product = 1
    for factor in factors:
        product *= factor
    formula = f"ceil({' '.join(name for name, _ in symbols)} / d)"
    assert evaluate(formula, [*symbols, ("d", divisor)]) == -(-product // divisor)
