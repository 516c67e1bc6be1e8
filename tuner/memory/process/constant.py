"""Sizes that are not derived: a typical figure and the interval it lies in."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.memory.ledger.stated_terms import Size, bytes_of, stated
from tuner.memory.ledger.terms import Item, Term


class Constant(Struct, frozen=True, kw_only=True):
    """A named size with the interval it lies in, in bytes."""

    low: int
    typical: int
    high: int
    source: str


def together(constants: Iterable[Constant]) -> Constant:
    """Several constants as one, their ends added up."""
    parts = tuple(constants)
    return Constant(
        low=sum(part.low for part in parts),
        typical=sum(part.typical for part in parts),
        high=sum(part.high for part in parts),
        source="; ".join(part.source for part in parts),
    )


def heuristic(
    item: Item,
    name: str,
    size: Size,
    constants: Mapping[str, Constant],
    numbers: Mapping[str, float] | None = None,
    *,
    evidence: Evidence = Evidence.HEURISTIC,
    exact_sum: bool = False,
) -> Term:
    """A term that grows with constants: its interval has all of them at their low and at their high end.

    Args:
        item: what it is.
        name: its stable identifier.
        size: the function over symbols.
        constants: by symbol.
        numbers: the symbols that are known exactly.
        evidence: how sure it is.
        exact_sum: whether something else is smaller by as much as this is larger, so that it has no interval.
    """
    exact_numbers = numbers or {}

    def with_constants(end: str) -> dict[str, float]:
        return {**exact_numbers, **{symbol: getattr(constant, end) for symbol, constant in constants.items()}}

    ends = (bytes_of(size, with_constants("low")), bytes_of(size, with_constants("high")))
    typical = with_constants("typical")
    return stated(item, name, size, typical, evidence=evidence, interval=None if exact_sum else ends)
