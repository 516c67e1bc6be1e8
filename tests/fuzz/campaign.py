"""Runs many inputs in processes of their own, and gathers what went wrong."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import nlargest
from multiprocessing.connection import Connection, wait

from tests.fuzz.worker import Told, serve

# Inputs; then a new one: what the allocator keeps of earlier inputs is none of the next one.
_PER_PROCESS = 1_500
_PATIENCE = 120.0  # seconds on the clock for one input: it waits for something
LISTED = 20  # of the slowest and of the largest inputs
_WARM = 100  # inputs, after which a process has imported what it needs


@dataclass(frozen=True)
class Failure:
    number: int
    problem: str


@dataclass
class Tally:
    inputs: int = 0
    codes: dict[str, int] = field(default_factory=dict)
    # Most first, with the number of the input: seconds of processor time, and bytes.
    slowest: list[tuple[float, int]] = field(default_factory=list)
    largest: list[tuple[int, int]] = field(default_factory=list)
    growth: int = 0  # bytes that a process gained between its hundredth input and its last one
    failures: list[Failure] = field(default_factory=list)

    def add(self, told: Told) -> None:
        outcome = told.outcome
        assert outcome is not None
        self.inputs += 1
        code = str(outcome.code)[:40]
        self.codes[code] = self.codes.get(code, 0) + 1
        self.slowest = nlargest(LISTED, [*self.slowest, (outcome.seconds, told.number)])
        self.largest = nlargest(LISTED, [*self.largest, (outcome.bytes, told.number)])
        told_of = outcome.err.strip().splitlines()[-1:] if outcome.code == 3 else []
        self.failures += [Failure(told.number, " ".join([text, *told_of])[:600]) for text in outcome.problems]


@dataclass
class _Process:
    process: multiprocessing.process.BaseProcess
    reads: Connection
    number: int = -1  # of the input that runs
    since: float = 0.0
    warm: int = 0
    count: int = 0


def campaign(
    seed: int,
    *,
    first: int,
    seconds: float,
    processes: int,
    say: Callable[[Failure], None],
    most: int | None = None,
) -> Tally:
    """Run inputs for some time, or a number of them.

    Args:
        seed: of all inputs.
        first: the number of the first one.
        seconds: on the clock.
        processes: side by side.
        say: is told of each failure at once.
        most: inputs at most; None: as many as there is time for.
    """
    context = multiprocessing.get_context("spawn")
    tally, end = Tally(), time.monotonic() + seconds
    numbers = _batches(first, most)
    running = [_started(context, seed, batch) for batch, _ in zip(numbers, range(processes), strict=False)]
    try:
        while running:
            wait([one.reads for one in running], timeout=1.0)
            for one in list(running):
                before = len(tally.failures)
                if not _listened(one, tally) or time.monotonic() > end:
                    running.remove(one)
                    one.process.kill()
                    one.process.join()
                    batch = next(numbers, None) if time.monotonic() < end else None
                    if batch is not None:
                        running.append(_started(context, seed, batch))
                for failure in tally.failures[before:]:
                    say(failure)
    except KeyboardInterrupt:  # what was counted until then is told
        for one in running:
            one.process.kill()
            one.process.join()
    return tally


def _batches(first: int, most: int | None) -> Iterator[range]:
    last = None if most is None else first + most
    while last is None or first < last:
        upto = first + _PER_PROCESS if last is None else min(last, first + _PER_PROCESS)
        yield range(first, upto)
        first = upto


def _started(context: multiprocessing.context.SpawnContext, seed: int, numbers: range) -> _Process:
    reads, writes = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(writes, seed, numbers), daemon=True)
    process.start()
    writes.close()
    return _Process(process, reads, since=time.monotonic())


def _listened(one: _Process, tally: Tally) -> bool:
    """Take what a process has said; False where it is at its end."""
    while one.reads.poll():
        try:
            told: Told = one.reads.recv()
        except EOFError:
            one.process.join()
            if one.process.exitcode:
                tally.failures.append(Failure(one.number, f"the process ended with {one.process.exitcode}"))
            return False
        one.number, one.since = told.number, time.monotonic()
        if told.outcome is not None:
            tally.add(told)
            one.count += 1
            if one.count == _WARM:
                one.warm = told.resident
            elif one.count > _WARM:
                tally.growth = max(tally.growth, told.resident - one.warm)
    if time.monotonic() - one.since > _PATIENCE:
        tally.failures.append(Failure(one.number, f"does not end within {_PATIENCE:.0f} s"))
        return False
    return True
