"""Parts of an answer one after the other, until whoever waits for it has had enough."""

from collections.abc import Callable, Iterable
from typing import TypeVar

_T = TypeVar("_T")


class UntilStopped:
    """Keeps what was made before an interruption, and makes nothing after it."""

    def __init__(self, *, stopped: bool = False) -> None:
        self.stopped = stopped

    def all(self, items: Iterable[_T], *, ends: Callable[[_T], bool] = lambda _item: False) -> tuple[_T, ...]:
        """The items that were made in time.

        Args:
            items: made while they are gone through.
            ends: whether the making of one was interrupted.
        """
        made: list[_T] = []
        if self.stopped:
            return ()
        try:
            for item in items:
                made.append(item)
                self.stopped = self.stopped or ends(item)
        except KeyboardInterrupt:
            self.stopped = True
        return tuple(made)
