"""Every way that a program can take through its conditions, found by running it again and again.

A condition that what is known already decides is decided; at another one the program goes one way, and is
run once more to go the other. What comes out is a tree: a condition, and what follows either way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calculator import numbers
from calculator.numbers import Condition, Number

Row = Mapping[str, Any]
Table = Sequence[Row]
"""The choices that a variable has, each with what follows from it."""


class Branch:
    """A condition, and what comes of it either way."""

    __slots__ = ("condition", "no", "yes")

    def __init__(self, condition: Condition, yes: Any, no: Any) -> None:
        self.condition, self.yes, self.no = condition, yes, no


class _Path:
    """What one run knows: conditions that it decided, the choices that are left, ends of numbers."""

    def __init__(self, above: "_Path | None", forced: Sequence[bool]) -> None:
        self.above = above
        self.results: dict[Any, Any] = {}  # what was computed on this way, and holds on it
        self.known: dict[int, bool] = dict(above.known) if above else {}
        self.left: dict[str, tuple[int, ...]] = dict(above.left) if above else {}
        self.ends: dict[int, tuple[float, float]] = dict(above.ends) if above else {}
        self.forced = forced
        self.taken: list[tuple[Condition, bool]] = []


class Explorer:
    """Runs programs on numbers that are not known.

    Args:
        tables: the choices of each variable that is chosen from a list.
        layers: how many layers a model is taken to have while it is traced.
        fresh: called before each run, to forget what an earlier one has left.
    """

    def __init__(self, tables: Mapping[str, Table], layers: int, fresh: Callable[[], None]) -> None:
        self.tables, self.layers, self.fresh = tables, layers, fresh
        self.paths: list[_Path] = []
        self.runs = 0
        self._rows: dict[tuple[int, str], tuple[Any, ...]] = {}
        numbers.steer(self.decide, self.index)

    # -- running ----------------------------------------------------------------------------

    def tree(self, program: Callable[[], Any], *, alone: bool = False) -> Any:
        """What a program gives, by its conditions.

        Args:
            program: what is run.
            alone: whether to forget what is known on the way that leads here, so that it holds on any.
        """
        above = None if alone or not self.paths else self.paths[-1]
        return self._grown(program, above, ())

    def _grown(self, program: Callable[[], Any], above: _Path | None, forced: Sequence[bool]) -> Any:
        path = _Path(above, forced)
        self.paths.append(path)
        self.fresh()
        self.runs += 1
        try:
            tree = program()
        finally:
            self.paths.pop()
            self.fresh()
        taken = path.taken
        for place in reversed(range(len(forced), len(taken))):
            way = [went for _, went in taken[:place]]
            tree = Branch(taken[place][0], tree, self._grown(program, above, (*way, False)))
        return tree

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """A result that is computed once on the way that is taken."""
        path: _Path | None = self.paths[-1]
        while path is not None:
            if key in path.results:
                return path.results[key]
            path = path.above
        found = self.paths[-1].results[key] = compute()
        return found

    # -- conditions ---------------------------------------------------------------------------

    def decide(self, condition: Condition) -> bool:
        """Whether a condition holds on the way that is taken."""
        if condition.op == "not":
            return not self.decide(condition.args[0])
        if not self.paths:
            raise numbers.NotWritableError(f"a condition outside of what is run: {condition}")
        path = self.paths[-1]
        if id(condition) in path.known:
            return path.known[id(condition)]
        holds = self._certain(path, condition)
        if holds is None:
            place = len(path.taken)
            holds = path.forced[place] if place < len(path.forced) else True
            path.taken.append((condition, holds))
            self._learn(path, condition, holds=holds)
        path.known[id(condition)] = holds
        return holds

    def _certain(self, path: _Path, condition: Condition) -> bool | None:
        """What is known of a condition; None where it may hold or not."""
        if condition.variables == {"layers"}:
            return bool(self.value(condition, "layers", 0))
        if len(condition.variables) == 1:
            (variable,) = condition.variables
            if variable in self.tables:
                rows = self._values(condition, variable)
                found = {bool(rows[row]) for row in self._open_choices(path, variable)}
                return found.pop() if len(found) == 1 else None
        left, right = condition.args
        (low, high), (least, most) = _ends(path, left), _ends(path, right)
        if condition.op == "<":
            return False if low >= most else True if high < least else None
        return False if high < least or most < low else None

    def _learn(self, path: _Path, condition: Condition, *, holds: bool) -> None:
        """Remember what a condition says of choices and of the ends of its numbers."""
        if len(condition.variables) == 1:
            (variable,) = condition.variables
            if variable in self.tables:
                rows = self._values(condition, variable)
                left = tuple(row for row in self._open_choices(path, variable) if bool(rows[row]) is holds)
                path.left[variable] = left
                return
        left, right = condition.args
        for one, other, smaller in ((left, right, True), (right, left, False)):
            low, high = _ends(path, one)
            if other.op != "constant":
                continue
            bound = other.args[0]
            if condition.op == "==":
                if holds:
                    low = high = bound
                elif low == bound:
                    low = bound + 1
                elif high == bound:
                    high = bound - 1
            elif smaller:
                low, high = (low, min(high, bound - 1)) if holds else (max(low, bound), high)
            else:
                low, high = (max(low, bound + 1), high) if holds else (low, min(high, bound))
            path.ends[id(one)] = (low, high)

    def _open_choices(self, path: _Path, variable: str) -> tuple[int, ...]:
        return path.left.get(variable) or tuple(range(len(self.tables[variable])))

    def open_choices(self, variable: str) -> tuple[int, ...]:
        """The choices of a variable that the way taken leaves."""
        return self._open_choices(self.paths[-1], variable)

    # -- values ---------------------------------------------------------------------------------

    def _values(self, expression: Any, variable: str) -> tuple[Any, ...]:
        """An expression of one variable for each of its choices."""
        key = (id(expression), variable)
        if key not in self._rows:
            rows = self.tables[variable]
            if expression.op == "constant":
                found = tuple(expression.args * len(rows))
            elif expression.op == "symbol":
                found = tuple(row[expression.args[1]] for row in rows)
            else:
                apply = _EVALUATED[expression.op]
                found = tuple(map(apply, *(self._values(arg, variable) for arg in expression.args)))
            self._rows[key] = found
        return self._rows[key]

    def value(self, expression: Any, variable: str, row: int) -> Any:
        """An expression of one variable for one of its choices."""

        def given(name: str, column: str) -> Any:
            return self.layers if name == "layers" else self.tables[name][row][column]

        return value_of(expression, given)

    def index(self, number: Number) -> int:
        """Which element a number picks: one of layers, of which as many are there as are traced."""
        if number.variables == {"layers"} or not number.variables:
            return int(self.value(number, "layers", 0))
        raise numbers.NotWritableError(f"an element or a length that is not known: {number}")


def _ends(path: _Path, number: Number) -> tuple[float, float]:
    return path.ends.get(id(number), (number.low, number.high))


_EVALUATED: dict[str, Callable[..., Any]] = {
    "+": lambda left, right: left + right,
    "*": lambda left, right: left * right,
    "floor": lambda left, right: left // right,
    "max": max,
    "min": min,
    "kept": lambda number: number,
    "<": lambda left, right: left < right,
    "==": lambda left, right: left == right,
    "not": lambda one: not one,
    "if": lambda condition, yes, no: yes if condition else no,
}


def value_of(expression: Any, given: Callable[[str, str], Any]) -> Any:
    """An expression with numbers in the place of its symbols."""
    found: dict[int, Any] = {}
    for one in numbers.inside(expression):
        found[id(one)] = apply(one, found, given)
    return found[id(expression)]


def apply(one: Any, found: dict[int, Any], given: Callable[[str, str], Any]) -> Any:
    """One operation, what it is applied to having been found before."""
    if one.op == "constant":
        return one.args[0]
    if one.op == "symbol":
        return given(*one.args)
    return _EVALUATED[one.op](*(found[id(arg)] for arg in one.args))


def leaves(tree: Any) -> list[Any]:
    """All that a tree may give."""
    return [*leaves(tree.yes), *leaves(tree.no)] if isinstance(tree, Branch) else [tree]


def folded(tree: Any, pick: Callable[[Any], Any]) -> Any:
    """A tree as one expression: what ``pick`` takes of each leaf, chosen by the conditions."""
    if isinstance(tree, Branch):
        return numbers.chosen(tree.condition, folded(tree.yes, pick), folded(tree.no, pick))
    return pick(tree)
