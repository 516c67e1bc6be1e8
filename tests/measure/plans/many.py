"""Rows of many launches, made on several processes, each within so many seconds."""

import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from multiprocessing import get_context
from types import FrameType

from msgspec import Struct

from tests.measure.plans.compare import Row, compared
from tests.measure.plans.launches import Launch


class Manner(Struct, frozen=True, kw_only=True):
    """How each launch is gone through."""

    layouts: bool = False
    limit_s: float | None = None  # of the clock, None for as long as it takes


class _TooLong(BaseException):
    """Raised where a launch takes its time; no handler of exceptions within the package keeps it."""


def rows_of(
    launches: Iterable[Launch],
    manner: Manner,
    *,
    jobs: int = 1,
    compare: Callable[..., Row] = compared,
) -> Iterator[Row]:
    """The row of each launch.

    Args:
        launches: in the order of their rows.
        manner: how each is gone through.
        jobs: how many processes share them.
        compare: what makes the row of a launch.
    """
    one = partial(_row, manner=manner, compare=compare)
    if jobs == 1:
        yield from map(one, launches)
        return
    with get_context("fork").Pool(jobs) as pool:
        yield from pool.imap(one, launches)


def _row(launch: Launch, *, manner: Manner, compare: Callable[..., Row]) -> Row:
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, manner.limit_s or 0)  # none rings at 0
    try:
        return compare(launch, layouts=manner.layouts)
    except _TooLong:
        return Row(launch=launch.name, failures=(f"takes more than {manner.limit_s:g} s",))
    except Exception as error:  # a defect of the planner is what is looked for
        traceback.print_exc()
        return Row(launch=launch.name, failures=(f"raises {type(error).__name__}: {error}",))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise _TooLong
