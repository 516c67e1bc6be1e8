"""Makes the parts of an answer in several processes, and gives them in their order."""

import gc
import pickle
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from functools import partial
from multiprocessing import active_children, get_context
from typing import TYPE_CHECKING, Any, TypeVar

from tuner.language import ENGLISH, chosen
from tuner.lifetime import begin_in_pool, start_silent_tracker, without_interrupts

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue

_LOOK_S = 0.2  # between two looks at what the processes tell
_Part = TypeVar("_Part")
_Made = TypeVar("_Made")
_Told = tuple[Any, ...]

#: Where a process puts what it tells the first one; None in that one itself, and where nobody watches.
_telling: "SimpleQueue[_Told] | None" = None


def tell(*what: object) -> None:
    """Tell the first process something, from a process that makes a part for it."""
    if _telling is not None:
        _telling.put(what)


def is_heard() -> bool:
    """Whether somebody watches what this process tells."""
    return _telling is not None


def side_by_side(
    make: Callable[[_Part], _Made],
    parts: Sequence[_Part],
    *,
    processes: int,
    begin_with: Sequence[int],
    watch: Callable[..., None] | None = None,
) -> Generator[_Made, None, None]:
    """What is made of each part, in the order of the parts.

    What another process cannot make, this one does: it then says itself why that is so.

    Args:
        make: a function of a module, since it goes to other processes.
        parts: what it is called with; they go there and what is made of them comes back.
        processes: at most.
        begin_with: the places of all parts, in the order in which they are begun.
        watch: called with what they :func:`tell`.
    """
    # Forked processes would share what other threads hold at that moment; started ones do so everywhere.
    context = get_context("spawn")
    told = None if watch is None else context.SimpleQueue()
    packed = pickle.dumps(partial(_like_the_first, chosen(), gc.get_threshold()[0]))
    others = set(active_children())
    start_silent_tracker()
    with ProcessPoolExecutor(
        min(processes, len(parts)), mp_context=context, initializer=_begin, initargs=(packed, told)
    ) as pool:
        try:
            with without_interrupts():
                futures = {place: pool.submit(make, parts[place]) for place in begin_with}
            for place, part in enumerate(parts):
                if watch is not None and told is not None:
                    _pass_on(told, watch, until=futures[place])
                yield _result(futures[place], make, part)
        except BaseException:  # such as Ctrl-C: nobody waits for what was begun
            for process in set(active_children()) - others:
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _result(future: "Future[_Made]", make: Callable[[_Part], _Made], part: _Part) -> _Made:
    try:
        return future.result()
    except Exception:  # whatever kept the other process from it
        return make(part)


def _pass_on(told: "SimpleQueue[_Told]", watch: Callable[..., None], *, until: "Future[_Made]") -> None:
    """Hand on what the processes tell, until one of them is done."""
    done = False
    while not done:
        done = bool(wait([until], timeout=_LOOK_S).done)
        while not told.empty():
            watch(*told.get())


def _begin(packed: bytes, told: "SimpleQueue[_Told] | None") -> None:
    global _telling
    _telling = told
    begin_in_pool(packed)


def _like_the_first(language: str, collect_after: int) -> None:
    """Give a process the language of the first one, and as many objects before it looks for garbage."""
    gc.set_threshold(collect_after)
    if language != ENGLISH:
        from tuner.catalogues import catalogue
        from tuner.language import choose

        choose(catalogue(language, source=""))
