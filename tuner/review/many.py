"""Judges many inputs in several processes, in the order in which they were named."""

import pickle
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from typing import TypeVar

from tuner.inputs.named_inputs import Input
from tuner.lifetime import begin_in_pool, cores, start_silent_tracker, without_interrupts

FEW = 48  # inputs that one process judges in less time than others take to start and to learn the defaults
_AT_A_TIME = 8  # inputs handed to a process at least: what it has to wait for is a small part of what it does
_MOST_AT_A_TIME = 64  # so that inputs that are alike go to one process
_HANDED_OVER_S = 5.0  # in which a process that is told to end has handed over what it began to
_TURNS = 4  # of a process at least, in which it does its share of what is left

Result = TypeVar("Result")


def judged_in_turn(
    inputs: Sequence[Input],
    judge: Callable[[Input], Result],
    prepare: Callable[[], None],
    *,
    processes: int | None = None,
) -> Generator[Result, None, None]:
    """What is found in each input, in the order of the inputs.

    Where a process is killed, for its memory say, this one judges what is left.

    Args:
        inputs: what is to be judged; few of them are judged in this process.
        judge: judges one input. It goes to other processes, so it is a function of a module or a part of one.
        prepare: is called once in each of these processes before anything else.
        processes: as many as there are cores for this one, if nobody says otherwise.
    """
    count = min(cores() if processes is None else processes, len(inputs) // _AT_A_TIME)
    if len(inputs) < FEW or count < 2:
        yield from map(judge, inputs)
        return
    # Forked processes would share what other threads hold at that moment; started ones do so everywhere.
    context = get_context("spawn")
    others = set(active_children())
    begin = pickle.dumps(partial(_begin, prepare))
    start_silent_tracker()
    with ProcessPoolExecutor(count, mp_context=context, initializer=begin_in_pool, initargs=(begin,)) as pool:
        done = 0
        try:
            with without_interrupts():
                parts = deque(pool.submit(_judge_all, judge, part) for part in _parts(inputs, count))
            while parts:
                for result in parts.popleft().result():
                    yield result
                    done += 1
            for process in set(active_children()) - others:  # nobody waits for their memory to be given back
                process.kill()
        except BrokenProcessPool:
            yield from map(judge, inputs[done:])
        except BaseException:  # such as Ctrl-C: nobody waits for what was begun
            for process in set(active_children()) - others:
                process.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _parts(inputs: Sequence[Input], processes: int) -> Iterator[Sequence[Input]]:
    """What is handed to a process at a time: less towards the end, so that none is idle for long there."""
    start = 0
    while start < len(inputs):
        share = (len(inputs) - start) // (processes * _TURNS)
        size = max(_AT_A_TIME, min(_MOST_AT_A_TIME, share))
        yield inputs[start : start + size]
        start += size


class _Stopped(BaseException):
    """What a process judged when it was told to end."""


@dataclass
class _Work:
    """What a process is at. One that is ended while it hands over results leaves the first one waiting."""

    judging: bool = False
    ends: bool = False


_WORK = _Work()


def _begin(prepare: Callable[[], None]) -> None:
    """Make a process end between two inputs or within one, and not while it hands over what it found."""
    signal.signal(signal.SIGTERM, _end)
    prepare()


def _end(_number: int, _frame: object) -> None:
    _WORK.ends = True
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, _HANDED_OVER_S)  # then an alarm ends it, if nobody did
    if _WORK.judging:
        raise _Stopped


def _judge_all(judge: Callable[[Input], Result], inputs: Sequence[Input]) -> list[Result]:
    _WORK.judging = True
    try:
        if _WORK.ends:
            raise _Stopped
        return list(map(judge, inputs))
    finally:
        _WORK.judging = False
