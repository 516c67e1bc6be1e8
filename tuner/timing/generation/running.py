"""The sequences that run in a simulated engine, and the clock of its steps."""

from heapq import heappop, heappush

from msgspec import Struct

from tuner.timing.generation.load import Waiting


class SequenceGroup(Struct):
    """Sequences that were admitted together and leave the engine together."""

    count: int
    start: int  # the step after which they would have had no token, had they run since
    length: int
    place: int
    turn: int


class Running:
    """Groups in order of their admission; the clock counts steps in which all of them get a token."""

    def __init__(self) -> None:
        """Nothing runs."""
        self.clock = 0
        self.count = 0  # sequences
        self.most = 0
        self._groups: list[SequenceGroup] = []
        self._ends: list[tuple[int, int, SequenceGroup]] = []
        self._admitted = 0  # groups so far
        self._starts = 0  # sum over the sequences of the step at which they started

    @property
    def generated(self) -> int:
        """Tokens of the responses of all of them."""
        return self.count * self.clock - self._starts

    @property
    def mean_generated(self) -> float:
        """Tokens of the response of one of them."""
        return (self.count * self.clock - self._starts) / self.count

    @property
    def most_generated(self) -> int:
        """Tokens of the response of the one that has most."""
        return self.clock - min(group.start for group in self._groups if group.count)

    def cache_tokens(self, prompt: float) -> float:
        """Tokens of the cache that they take, with so many for the prompt of each."""
        count = self.count
        return count * prompt + (count * self.clock - self._starts)

    def add(self, count: int, head: Waiting) -> None:
        """Let sequences run that have got the next token in the last step."""
        start = self.clock - 1 - head.generated
        group = SequenceGroup(count, start, head.length, head.place, head.turn)
        self._groups.append(group)
        self._admitted += 1
        heappush(self._ends, (start + head.length, self._admitted, group))
        self._starts += count * start
        self.count += count
        if self.count > self.most:
            self.most = self.count

    def steps_until_end(self, most: int) -> int:
        """Steps until the next of them has its last token, or so many."""
        ends = self._ends
        while ends and not ends[0][2].count:
            heappop(ends)
        if not ends:
            return most
        steps = ends[0][0] - self.clock
        return steps if steps < most else most

    @property
    def has_ended(self) -> bool:
        """Whether the last token of a group may have come."""
        return bool(self._ends) and self._ends[0][0] <= self.clock

    def ended(self) -> SequenceGroup | None:
        """A group whose last token has come, until it is removed; None where all run on."""
        ends = self._ends
        while ends and (ends[0][0] <= self.clock or not ends[0][2].count):
            group = heappop(ends)[2]
            if group.count:
                return group
        return None

    def youngest(self) -> SequenceGroup:
        """The group that was admitted last, of those that run."""
        while not self._groups[-1].count:
            self._groups.pop()
        return self._groups[-1]

    def remove(self, group: SequenceGroup, count: int) -> None:
        """Let so many of a group run no more."""
        group.count -= count
        self.count -= count
        self._starts -= count * group.start
