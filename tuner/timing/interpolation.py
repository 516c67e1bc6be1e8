"""Interpolation between the sizes of measured tables."""

from bisect import bisect_right
from math import log


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
