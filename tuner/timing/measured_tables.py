"""Tables of what was measured between GPUs, and interpolation between the sizes of such a table."""

from bisect import bisect_right
from itertools import accumulate
from math import exp, log

from msgspec import Struct
from msgspec.structs import force_setattr

from tuner.enumeration import Enum


def neighbours(axis: tuple[float, ...], value: float) -> tuple[int, int, float]:
    """Places on both sides of a value, and how far it lies between them, in logarithms.

    Args:
        axis: at least two sizes above 0, each more than the one before.
        value: held at the ends of the axis.
    """
    inside = min(max(value, axis[0]), axis[-1])
    high = min(max(1, bisect_right(axis, inside)), len(axis) - 1)
    low = high - 1
    return low, high, log(inside / axis[low]) / log(axis[high] / axis[low])


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
