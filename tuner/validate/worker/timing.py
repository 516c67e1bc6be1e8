"""Seconds of repeated work on a GPU, between events on its stream."""

from collections.abc import Callable
from itertools import pairwise
from math import ceil

import torch

Work = Callable[[], object]
_LEAST_S = 1e-6  # the resolution of events is half of that


def repeated(work: Work, *, seconds: float, warm_up: float = 0.0, least: int = 5) -> list[float]:
    """Seconds of each repetition, all of them issued before the first is waited for.

    The GPU never idles between them, so that it gets as warm, and is held back as much, as in a long run.

    Args:
        work: issues kernels on the current stream.
        seconds: that the repetitions should take together.
        warm_up: seconds of repetitions before them that do not count.
        least: repetitions, however long they take.
    """
    work()
    single = _once(work)
    for _ in range(ceil(warm_up / single)):
        work()
    count = max(least, ceil(seconds / single))
    marks = [_mark() for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        work()
        mark.record()
    marks[-1].synchronize()
    return [_between(before, after) for before, after in pairwise(marks)]


def _once(work: Work) -> float:
    start, end = _mark(), _mark()
    start.record()
    work()
    end.record()
    end.synchronize()
    return max(_between(start, end), _LEAST_S)


def _mark() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def _between(start: torch.cuda.Event, end: torch.cuda.Event) -> float:
    """Seconds; both have been waited for."""
    return float(start.elapsed_time(end)) / 1000
