"""The best settings of a search, one of each layout, with ranks that ties share."""

from collections.abc import Sequence

from tuner import timing
from tuner.hardware import Cluster
from tuner.plan.judge import Candidate
from tuner.plan.space import Choice

MOST = 5
MOST_SLOWER = 1.5  # times the fastest: what takes longer is no alternative to it, whatever its layout is


class Best:
    """The fastest settings, and the fastest one of every layout."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._of_layout: dict[Choice, Candidate] = {}
        self._settings: tuple[Candidate, ...] = ()

    @property
    def settings(self) -> tuple[Candidate, ...]:
        """The fastest setting of each layout, the fastest first."""
        return self._settings

    def passes_over(self, layout: Choice, seconds: float) -> bool:
        """Whether a setting of a layout is of no interest if it takes so many seconds."""
        leader = self._of_layout.get(layout)
        if leader is not None:
            return seconds >= leader.seconds
        settings = self.settings
        return len(settings) == self._most and seconds >= settings[-1].seconds

    def enter(self, layout: Choice, setting: Candidate) -> None:
        """Take a setting as the leader of its layout, where it is faster than the one before."""
        leader = self._of_layout.get(layout)
        if leader is None or setting.seconds < leader.seconds:
            self._of_layout[layout] = setting
            leaders = sorted(self._of_layout.values(), key=lambda one: one.seconds)
            self._settings = tuple(leaders[: self._most])


def worth_naming(settings: Sequence[Candidate]) -> list[Candidate]:
    """The settings, in order of their seconds, that somebody may choose in place of the fastest."""
    return [one for one in settings if one.seconds <= MOST_SLOWER * settings[0].seconds]


def ranks(settings: Sequence[Candidate]) -> tuple[int, ...]:
    """Ranks of settings in order of their seconds, see :func:`ranks_of`."""
    return ranks_of([(one.figures.time, one.workload.cluster) for one in settings])


def ranks_of(
    steps: Sequence[tuple[timing.StepTime, Cluster]],
    *otherwise: Sequence[tuple[timing.StepTime, Cluster]],
    beyond: float = 0.0,
) -> tuple[int, ...]:
    """Ranks of steps in order of their seconds: one whose difference is uncertain shares that before it.

    A tie is with the first of a rank, not with the one just before: else all would share one rank by and by.

    Args:
        steps: in order of their seconds.
        otherwise: the same steps as they may be as well; a rank ends only where it does with each of them.
        beyond: share of a step that two of them may differ by for no reason at all.
    """
    given: list[int] = []
    first = 0

    def is_behind(ways: Sequence[tuple[timing.StepTime, Cluster]], place: int) -> bool:
        (before, cluster), (after, then) = ways[first], ways[place]
        return timing.change(before, after, cluster, then=then).low_share > beyond

    for place in range(len(steps)):
        if not given or all(is_behind(ways, place) for ways in (steps, *otherwise)):
            first = place
        given.append(first + 1)
    return tuple(given)
