"""Expressions for any number of layers, from those that were traced with two numbers of them.

How many layers a model has decides how often a loop runs, so that the program must know it. It is run with
fewer layers than any model has, and with more: what differs between the two are constants, each a multiple
of the difference, and so a multiple of the layers and a rest. Where anything else differs, the build stops.
"""

from typing import Any

from calculator import numbers
from calculator.numbers import Condition, NotWritableError, Number

FEW, MANY = 7, 131


def symbol() -> Number:
    """The layers of the model."""
    return numbers.symbol("layers", "layers", FEW, MANY)


class Unifier:
    """Puts expressions for few and for many layers together."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], Any] = {}

    def unify(self, few: Any, many: Any) -> Any:
        """The expression that both are."""
        if few is many or isinstance(few, bool) or isinstance(many, bool):
            if few is not many:
                raise NotWritableError(f"decided by the number of layers: {few}, {many}")
            return few
        key = (id(few), id(many))
        if key not in self.known:
            self.known[key] = self._unified(few, many)
        return self.known[key]

    def _unified(self, few: Any, many: Any) -> Any:
        if few.op == many.op == "constant":
            times, rest = divmod(many.args[0] - few.args[0], MANY - FEW)
            if rest:
                raise NotWritableError(f"{few.args[0]} with {FEW} layers, {many.args[0]} with {MANY}")
            return symbol() * times + (few.args[0] - times * FEW)
        if few.op != many.op or few.op == "symbol" or len(few.args) != len(many.args):
            raise NotWritableError(f"not the same for any number of layers: {few}; {many}")
        return _again(few.op, [self.unify(*pair) for pair in zip(few.args, many.args, strict=True)])


def _again(op: str, args: list[Any]) -> Any:
    """An operation once more, on other numbers."""
    match op:
        case "+":
            return numbers.add(*args)
        case "*":
            return numbers.multiply(*args)
        case "floor":
            return numbers.divide(*args)
        case "max":
            return numbers.largest(args)
        case "min":
            return numbers.smallest(args)
        case "kept":
            return args[0]
        case "if":
            condition, yes, no = args
            if isinstance(condition, Condition):
                return numbers.chosen(condition, yes, no)
            return yes if condition else no
        case "<":
            return numbers.less(*args)
        case "==":
            return numbers.equal(*args)
        case _:
            return numbers.negated(args[0])
