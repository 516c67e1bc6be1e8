"""Formulas that functions write, as the pages set them."""

import pytest

from docs._ext.formula_latex import latex


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        ("T V logits", r"T \, V \, \mathrm{logits}"),
        ("b_s ceil(N_t / W)", r"b_s \, \left\lceil \frac{N_t}{W} \right\rceil"),
        ("ceil(T_f a_k / (v_p T_p))", r"\left\lceil \frac{T_f \, a_k}{v_p \, T_p} \right\rceil"),
        ("(a + b) / c / d", r"\frac{a + b}{c \, d}"),
        ("(a + b / c) / d", r"\frac{a + \frac{b}{c}}{d}"),
        ("b N (1 - f_o)", r"b \, N \, ( 1 - f_o )"),
        ("2 max(a, b c) - 4", r"2 \, \max( a, \; b \, c ) - 4"),
        (
            "floor(a / 2) min(1, m / m_0)",
            r"\left\lfloor \frac{a}{2} \right\rfloor \, \min\left( 1, \; \frac{m}{m_0} \right)",
        ),
        ("3 * 4 T_max", r"3 \cdot 4 \, T_{max}"),
        ("0 - a + b", "- a + b"),
        ("0.5 product_gradient", r"0.5 \, \mathrm{product\ gradient}"),
    ],
)
def test_a_formula_is_set_as_on_paper(formula: str, written: str) -> None:
    assert latex(formula) == written
