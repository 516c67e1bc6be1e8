"""Round numbers along the axis of a picture."""

from collections.abc import Iterator
from math import ceil, floor, log10

_FINE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
_COARSE = (1.0, 2.0, 5.0)
_FEW = 3


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers of an axis whose equal steps are equal factors."""
    for parts in (_COARSE, _FINE):
        numbers = list(_decades(low, high, parts))
        if len(numbers) >= _FEW:
            return numbers
    return even_ticks(low, high)


def _decades(low: float, high: float, parts: tuple[float, ...]) -> Iterator[float]:
    for power in range(floor(log10(low)), ceil(log10(high)) + 1):
        yield from (value for part in parts if low <= (value := part * 10.0**power) <= high)


def even_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers of an axis whose equal steps are equal amounts: so many at most."""
    if high <= low:
        return [low]
    power = 10.0 ** floor(log10((high - low) / most))
    step = next(part * power for part in (1, 2, 5, 10, 20) if (high - low) / (part * power) <= most)
    return [step * place for place in range(ceil(low / step), floor(high / step) + 1)]
