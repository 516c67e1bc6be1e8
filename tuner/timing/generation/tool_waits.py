"""Sequences that are with their tools, and the clock in seconds by which they come back."""

from heapq import heappop, heappush
from math import ceil

from tuner.timing.generation.load import Stretch, Turns, Waiting
from tuner.timing.generation.step import StepSeconds


class ToolWaits:
    """Who is with tools until when."""

    def __init__(self, turns: Turns) -> None:
        """Nobody is yet."""
        self._turns = turns
        self._now = self._agents_free = 0.0
        self._back: list[tuple[float, int, Waiting]] = []
        self._left = 0  # entries that left so far
        self.idle_s = 0.0
        self.priced: list[StepSeconds] = []  # a step of each stretch

    def __bool__(self) -> bool:
        return bool(self._back)

    def passes(self, stretch: Stretch) -> None:
        """The engine has run a stretch of steps."""
        step = self._turns.priced(stretch)
        self.priced.append(step)
        self._now += stretch.steps * _sum_of_causes(step)

    def leave(self, back: Waiting) -> None:
        """Sequences have ended a turn and come back as they are described."""
        turns, calls = self._turns, back.calls
        work = calls * turns.agent_s
        self._agents_free = max(self._now, self._agents_free) + back.count * work / turns.agents
        self._left += 1
        at = max(self._agents_free, self._now + work) + calls * turns.tool_s
        heappush(self._back, (at, self._left, back))

    @property
    def is_back(self) -> bool:
        """Whether somebody is back who was not asked for yet."""
        return bool(self._back) and self._back[0][0] <= self._now

    def returned(self) -> Waiting:
        """The first of those who are back."""
        return heappop(self._back)[2]

    def steps_until_return(self, step: Stretch, least: int) -> int:
        """Steps like one that the engine runs until somebody is back, to the nearest few."""
        return max(least, ceil((self._back[0][0] - self._now) / _sum_of_causes(self._turns.priced(step))))

    def wait(self) -> None:
        """Nobody runs: the engine waits until somebody is back."""
        self.idle_s += max(0.0, self._back[0][0] - self._now)
        self._now = max(self._now, self._back[0][0])


def _sum_of_causes(step: StepSeconds) -> float:
    decode, prefill, reductions, gaps, launch, engine, *_host = step
    return decode + prefill + reductions + gaps + launch + engine
