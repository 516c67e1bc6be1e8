"""Sequences that are with their tools, and the clock in seconds by which they come back."""

from collections.abc import Iterator
from heapq import heappop, heappush
from math import ceil

from msgspec import Struct

from tuner.timing.generation.stretches import Stretch
from tuner.timing.generation.turns import Turns


class Waiting(Struct):
    """Sequences of one response in the queue of an engine."""

    count: int
    place: int  # of their response in the load
    length: int  # tokens of the response at which they leave the engine
    new: float  # tokens that are computed before the next one, whatever the cache still has
    turn: int = 0
    calls: float = 1.0  # of tools since the turn before, after each of which as much is computed again
    generated: int = 0  # tokens of the response that are there
    kept: float = 0.0  # tokens that are computed again once their blocks are taken
    mark: float = 0.0  # tokens given out by the cache up to which none of their blocks is taken

    def is_like(self, other: "Waiting") -> bool:
        """Whether both begin the same turn of the same response."""
        return (self.place, self.turn, self.generated) == (other.place, other.turn, other.generated)

    def join(self, other: "Waiting") -> None:
        """Let others of the same turn wait beside these."""
        both = self.count + other.count
        self.mark = (self.count * self.mark + other.count * other.mark) / both
        self.count = both


class Away:
    """Who is with tools until when."""

    def __init__(self, turns: Turns) -> None:
        """Nobody is yet."""
        self._turns = turns
        self._now = self._agents_free = 0.0
        self._back: list[tuple[float, int, Waiting]] = []
        self._left = 0  # entries that left so far
        self.idle_s = 0.0

    def __bool__(self) -> bool:
        return bool(self._back)

    def passes(self, stretch: Stretch) -> None:
        """The engine has run a stretch of steps."""
        self._now += self._turns.seconds(stretch)

    def leave(self, back: Waiting) -> None:
        """Sequences have ended a turn and come back as they are described."""
        turns, calls = self._turns, back.calls
        work = calls * turns.agent_s
        self._agents_free = max(self._now, self._agents_free) + back.count * work / turns.agents
        self._left += 1
        at = max(self._agents_free, self._now + work) + calls * turns.tool_s
        heappush(self._back, (at, self._left, back))

    def returned(self) -> Iterator[Waiting]:
        """Those who are back, in the order in which they came."""
        while self._back and self._back[0][0] <= self._now:
            yield heappop(self._back)[2]

    def steps_until_return(self, step: Stretch, least: int) -> int:
        """Steps like one that the engine runs until somebody is back, to the nearest few."""
        return max(least, ceil((self._back[0][0] - self._now) / self._turns.seconds(step)))

    def wait(self) -> None:
        """Nobody runs: the engine waits until somebody is back."""
        self.idle_s += max(0.0, self._back[0][0] - self._now)
        self._now = max(self._now, self._back[0][0])
