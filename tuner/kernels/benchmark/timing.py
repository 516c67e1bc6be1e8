"""Times and peaks: heads take turns, so that clocks and neighbours touch all alike."""

from collections.abc import Callable, Mapping
from statistics import median

import torch


def milliseconds(run: Callable[[], object]) -> float:
    """Of one call, between two events on the device."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    result = run()
    end.record()
    end.synchronize()
    del result
    return float(start.elapsed_time(end))


def interleaved(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, dict[str, float]]:
    """Median, least and most milliseconds of each, taken in turns after one round that does not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for round_number in range(rounds + 1):
        for name, run in runs.items():
            taken = milliseconds(run)
            if round_number:
                times[name].append(taken)
    return {
        name: {"median_ms": median(taken), "least_ms": min(taken), "most_ms": max(taken)}
        for name, taken in times.items()
    }


def peak_bytes(run: Callable[[], object]) -> int:
    """Most allocated during one call beyond what was before it: results included."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    result = run()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    del result
    return peak
