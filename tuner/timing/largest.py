"""The largest of some random numbers, expected."""

from functools import lru_cache
from math import erf, sqrt


@lru_cache(maxsize=256)
def largest_normal(count: int) -> float:
    """The largest of n standard normal numbers, expected: ``P(x) = (n - 3/8) / (n + 1/4)`` (Blom 1958)."""
    share, low, high = (count - 0.375) / (count + 0.25), 0.0, 8.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + erf(middle / sqrt(2))) / 2 < share else (low, middle)
    return low
