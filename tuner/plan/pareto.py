"""What is unbeaten in two numbers of which less is better: seconds, and bytes, GPU-hours or a price."""

from collections.abc import Sequence

from tuner.plan.judge import Candidate

Point = tuple[float, float]


def is_as_good(one: Point, other: Point) -> bool:
    """Whether one point is as small in both numbers as another one, at least."""
    return one[0] <= other[0] and one[1] <= other[1]


def unbeaten(points: Sequence[Point]) -> list[bool]:
    """Whether a point is beaten by none: no other one is as good, and smaller in one of the numbers."""
    return [not any(other != one and is_as_good(other, one) for other in points) for one in points]


class Pareto:
    """The settings that nothing beats in seconds and in bytes of the worst phase, while a search goes on.

    Of settings that are alike in both the first one stays.
    """

    def __init__(self) -> None:
        self._members: list[Candidate] = []

    @property
    def members(self) -> tuple[Candidate, ...]:
        """The settings, the fastest first."""
        return tuple(sorted(self._members, key=lambda one: one.seconds))

    def beats(self, seconds: float, peak_bytes: int) -> bool:
        """Whether a member is as fast and as small at least."""
        return any(is_as_good(_point(one), (seconds, peak_bytes)) for one in self._members)

    def enter(self, setting: Candidate) -> None:
        """Take a setting in, and leave out those that it beats."""
        point = _point(setting)
        if not self.beats(*point):
            self._members = [one for one in self._members if not is_as_good(point, _point(one))] + [setting]


def _point(setting: Candidate) -> tuple[float, int]:
    return setting.seconds, setting.peak_bytes
