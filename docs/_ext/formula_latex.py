"""Formulas of the memory model in LaTeX: quotients as fractions, roundings as brackets."""

from collections.abc import Iterable

from tuner.memory.ledger.formula import tokens

_BRACKETS = {
    "ceil": (r"\lceil", r"\rceil"),
    "floor": (r"\lfloor", r"\rfloor"),
    "max": ("(", ")"),
    "min": ("(", ")"),
    "": ("(", ")"),
}
_NAMED = ("max", "min")


def latex(formula: str) -> str:
    """A formula of :mod:`tuner.memory.ledger.formula` in LaTeX; a name of several letters is upright."""
    return _Reader(formula).sum()


class _Reader:
    """Reads a formula from left to right and writes it as it goes; it has been evaluated before."""

    def __init__(self, formula: str) -> None:
        self.words = [*reversed(tokens(formula))]

    @property
    def _next(self) -> str:
        return self.words[-1] if self.words else ""

    def sum(self) -> str:
        """Addends with their signs; a zero that only carries a sign is left out."""
        text = self._product()
        while self._next in ("+", "-"):
            sign = self.words.pop()
            text = f"{text} {sign} {self._product()}".removeprefix("0 ")
        return text

    def _product(self) -> str:
        """Factors, over their divisors where there are any."""
        above, below = [self._factor()], []
        while self._next == "*":
            self.words.pop()
            above.append(self._factor())
        while self._next == "/":
            self.words.pop()
            below.append(self._factor())
        if not below:
            return _joined(above)
        return rf"\frac{{{_bare(above)}}}{{{_bare(below)}}}"

    def _factor(self) -> str:
        word = self.words.pop()
        if word not in ("(", *_BRACKETS):
            return symbol(word)
        function = ""
        if word != "(":
            function = word
            self.words.pop()  # its parenthesis
        parts = [self.sum()]
        while self._next == ",":
            self.words.pop()
            parts.append(self.sum())
        self.words.pop()
        return _bracketed(function, r", \; ".join(parts))


def _bracketed(function: str, inside: str) -> str:
    opening, closing = _BRACKETS[function]
    if r"\frac" in inside:
        opening, closing = rf"\left{opening}", rf"\right{closing}"
    name = rf"\{function}" if function in _NAMED else ""
    return f"{name}{opening} {inside} {closing}"


def _joined(factors: Iterable[str]) -> str:
    """A product; between two numbers it is written."""
    text = ""
    for factor in factors:
        dot = text[-1:].isdigit() and factor[:1].isdigit()
        times = r" \cdot " if dot else r" \, "
        text += times + factor if text else factor
    return text


def _bare(factors: list[str]) -> str:
    """A product above or below a line, where a single sum needs no parentheses."""
    alone = factors[0] if len(factors) == 1 else ""
    for opening, closing in (("( ", " )"), (r"\left( ", r" \right)")):
        if alone.startswith(opening):
            return alone.removeprefix(opening).removesuffix(closing)
    return _joined(factors)


def symbol(word: str) -> str:
    """A number or a name: a letter with an index, or a word."""
    base, _, index = word.partition("_")
    if len(base) > 1 and not base[0].isdigit():
        return rf"\mathrm{{{word.replace('_', ' ')}}}".replace(" ", r"\ ")
    return f"{base}_{{{index}}}" if len(index) > 1 else word
