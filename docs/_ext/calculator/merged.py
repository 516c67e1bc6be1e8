"""One result of the many that a program may give: sizes that are chosen by the conditions on the way."""

from collections.abc import Callable
from typing import Any

from calculator import numbers
from calculator.numbers import Condition
from calculator.paths import Branch, folded, leaves
from tuner.memory.layer.backward_stages import BackwardStage
from tuner.memory.ledger.terms import Moment, Term
from tuner.memory.process.constant import Constant
from tuner.memory.residents import States

Pick = Callable[[Any], Any]


def number(tree: Any) -> Any:
    """One number."""
    return folded(tree, lambda leaf: leaf)


def flag(tree: Any) -> Any:
    """Whether something is so."""
    return numbers.equal(numbers.as_number(folded(tree, int)), numbers.constant(1))


def constant(tree: Any) -> Any:
    """One size with its interval."""
    return _one_constant(tree, lambda leaf: leaf)


def constants(tree: Any) -> Any:
    """Sizes with their intervals, by symbol; nothing where a way lacks one."""
    symbols = dict.fromkeys(symbol for leaf in leaves(tree) for symbol in leaf)
    return {
        symbol: _one_constant(tree, _picker(lambda leaf, name: leaf.get(name), symbol)) for symbol in symbols
    }


def _picker(pick: Callable[[Any, str], Any], name: str) -> Pick:
    return lambda leaf: pick(leaf, name)


def _one_constant(tree: Any, pick: Pick) -> Constant:
    def size(end: str) -> Any:
        return folded(tree, lambda leaf: 0 if pick(leaf) is None else getattr(pick(leaf), end))

    return Constant(low=size("low"), typical=size("typical"), high=size("high"), source="")


def terms(tree: Any) -> Any:
    """One term, or one tuple of terms; a term that some ways lack has nothing there."""
    ends = leaves(tree)
    if not any(isinstance(end, tuple) for end in ends):
        present = {end.name for end in ends if end is not None}
        return _one_term(tree, present.pop(), lambda end: [] if end is None else [end]) if present else None
    names = dict.fromkeys(term.name for end in ends for term in end if term is not None)
    return tuple(_one_term(tree, name, _picker(_named, name)) for name in names)


def _named(listed: tuple[Term | None, ...], name: str) -> list[Term]:
    return [term for term in listed if term is not None and term.name == name]


def _one_term(tree: Any, name: str, pick: Pick) -> Any:
    """One term of all terms of a name that a way has."""
    ends = [pick(leaf) for leaf in leaves(tree)]
    present = [term for end in ends for term in end]
    if all(len(end) == 1 and end[0] is present[0] for end in ends):
        return present[0]
    if len({term.item for term in present}) > 1:
        raise numbers.NotWritableError(f"{name} is two things")

    def size(end: str) -> Any:
        return numbers.kept_size(folded(tree, lambda leaf: sum(getattr(term, end) for term in pick(leaf))))

    return Term(
        item=present[0].item,
        name=name,
        bytes=size("bytes"),
        evidence=present[0].evidence,
        low_bytes=size("low"),
        high_bytes=size("high"),
    )


def moments(tree: Any) -> Any:
    """Moments by name, each with all terms that it may have; one that a way lacks is empty there."""
    names = dict.fromkeys(moment.name for leaf in leaves(tree) for moment in leaf)
    found = []
    for name in names:
        by_name = mapped(tree, _picker(_terms_of, name))
        found.append(Moment(name=name, terms=terms(by_name)))
    return tuple(found)


def one_of(condition: Condition, yes: Any, no: Any) -> Any:
    """One of two things of one kind, by a condition that nobody has decided."""
    tree = Branch(condition, yes, no)
    if isinstance(yes, Term):
        return terms(tree)
    if isinstance(yes, Moment):
        return Moment(name=yes.name, terms=terms(mapped(tree, lambda moment: moment.terms)))
    names = yes.__struct_fields__
    return type(yes)(**{name: folded(tree, _picker(getattr, name)) for name in names})


TOGETHER = (Term, Moment, BackwardStage)


def _terms_of(listed: tuple[Moment, ...], name: str) -> tuple[Term, ...]:
    same = [moment for moment in listed if moment.name == name]
    if len(same) > 1:
        raise numbers.NotWritableError(f"the moment {name} is there twice")
    return same[0].terms if same else ()


def states(tree: Any) -> States:
    """The states of one engine, whichever engine it is."""
    first, *others = leaves(tree)
    if any(other.engine is not first.engine for other in others):
        raise numbers.NotWritableError("states of different engines")

    def part(name: str) -> Any:
        return terms(mapped(tree, lambda leaf: getattr(leaf, name)))

    return States(
        parameters=part("parameters"),
        optimizer=part("optimizer"),
        left=part("left"),
        buffer=part("buffer"),
        engine=first.engine,
        module=part("module"),
    )


def mapped(tree: Any, pick: Pick) -> Any:
    """A tree with something of each leaf in its place."""
    if isinstance(tree, Branch):
        return Branch(tree.condition, mapped(tree.yes, pick), mapped(tree.no, pick))
    return pick(tree)
