"""Measured seconds of collectives between the GPUs of one machine, by their bytes."""

from itertools import accumulate
from math import exp, log

from msgspec import Struct
from msgspec.structs import force_setattr

from tuner.enumeration import Enum
from tuner.timing.interpolation import neighbours


class Collective(Enum):
    """Kinds of collectives that were measured, by their keys in a table."""

    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"


class Collectives(Struct, frozen=True, kw_only=True):
    """Seconds of collectives between some GPUs of one machine, as they follow one another on a stream."""

    ranks: int
    bytes: tuple[float, ...]  # of the whole: gathered, reduced, or held by one rank that exchanges
    all_gather: tuple[float, ...]  # a column for each number of bytes, as the others
    reduce_scatter: tuple[float, ...]
    all_reduce: tuple[float, ...]
    all_to_all: tuple[float, ...]

    def __post_init__(self) -> None:
        """Take out what noise there is between columns: fewer bytes never take more time than more."""
        for kind in Collective:
            least = accumulate(reversed(getattr(self, kind.value)), min)
            force_setattr(self, kind.value, tuple(reversed(tuple(least))))

    def seconds(self, kind: Collective, size: float) -> float:
        """Seconds of a collective of so many bytes.

        Interpolated between logarithms; fewer bytes than the table has take as long as its fewest, more of
        them as long each as its most.
        """
        columns: tuple[float, ...] = getattr(self, kind.value)
        low, high, between = neighbours(self.bytes, size)
        seconds = exp((1 - between) * log(columns[low]) + between * log(columns[high]))
        return seconds * max(1.0, size / self.bytes[-1])
