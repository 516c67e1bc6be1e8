"""Times and peaks: heads take turns in a changing order, so that clocks and neighbours touch all alike."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from random import Random
from statistics import median
from time import perf_counter

import torch

Call = Callable[[], object]
LEAST_ROUNDS = 3
_TIME_OF_ONE = 1.0  # seconds that the rounds of one call may take


@dataclass(frozen=True, kw_only=True)
class Timed:
    """Milliseconds of one call, over the rounds in which it took part."""

    median_ms: float
    least_ms: float
    most_ms: float
    rounds: int


def milliseconds(run: Call) -> float:
    """Milliseconds of one call, between two events on the device."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    result = run()
    end.record()
    end.synchronize()
    del result
    return float(start.elapsed_time(end))


def rounds_of(first_ms: float, rounds: int) -> int:
    """How many rounds a call takes part in: all, or as many as take a second, but at least three."""
    if not first_ms > 0:
        return rounds
    return min(rounds, max(LEAST_ROUNDS, int(1000 * _TIME_OF_ONE / first_ms)))


def _takes_part(count: int, number: int, rounds: int) -> bool:
    return number * count // rounds != (number + 1) * count // rounds


def interleaved(
    runs: Mapping[str, Call],
    rounds: int,
    *,
    clock: Callable[[Call], float] = milliseconds,
    before: Call = lambda: None,
    say: Callable[[int], None] = lambda number: None,
    failed: Callable[[str, Exception], None] | None = None,
) -> dict[str, Timed]:
    """Times of several calls, taken in turns after a round that does not count and that tells who is slow.

    Slow calls take part in some of the rounds, evenly spread. The order is another in each round, and the
    same work comes before each call: a card at its limit of power runs up to a tenth faster after a call that
    left it cool.

    Args:
        runs: by name.
        rounds: most that count.
        clock: milliseconds of a call.
        before: runs before each call and is not timed.
        say: is told the number of each round that begins, zero first.
        failed: is told of a call that raised an error, which takes no further part; None: it is raised.
    """
    wanted: dict[str, int] = {}
    times: dict[str, list[float]] = {name: [] for name in runs}

    def timed(name: str) -> float:
        try:
            before()
            return clock(runs[name])
        except Exception as error:
            if failed is None:
                raise
            times.pop(name)
            failed(name, error)
            return nan

    say(0)
    for name in runs:
        wanted[name] = rounds_of(timed(name), rounds)
    for number in range(rounds):
        say(number + 1)
        names = [name for name in times if _takes_part(wanted[name], number, rounds)]
        Random(number).shuffle(names)
        for name in names:
            times_ms = timed(name)
            if name in times:
                times[name].append(times_ms)
    return {
        name: Timed(
            median_ms=median(times_ms), least_ms=min(times_ms), most_ms=max(times_ms), rounds=len(times_ms)
        )
        for name, times_ms in times.items()
    }


def seconds(run: Call, device: str) -> tuple[float, object]:
    """Seconds of one call from its start to the end of its work on the device, and what it returned."""
    _synchronize(device)
    start = perf_counter()
    result = run()
    _synchronize(device)
    return perf_counter() - start, result


def _synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def peak_bytes(run: Call) -> int:
    """Most bytes allocated during one call beyond what was before it: results included."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = run()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return peak
