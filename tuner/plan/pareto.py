"""Settings of which none is both faster and smaller than another."""

from tuner.plan.judge import Candidate


class Pareto:
    """The settings that nothing beats in seconds and in bytes of the worst phase at once."""

    def __init__(self) -> None:
        self._members: list[Candidate] = []

    @property
    def members(self) -> tuple[Candidate, ...]:
        """The settings, the fastest first."""
        return tuple(sorted(self._members, key=lambda one: one.seconds))

    def beats(self, seconds: float, peak_bytes: int) -> bool:
        """Whether a member is as fast and as small at least."""
        return any(one.seconds <= seconds and one.peak_bytes <= peak_bytes for one in self._members)

    def enter(self, setting: Candidate) -> None:
        """Take a setting in, and leave out those that it beats."""
        seconds, peak = setting.seconds, setting.peak_bytes
        if self.beats(seconds, peak):
            return
        beaten = [one for one in self._members if seconds <= one.seconds and peak <= one.peak_bytes]
        self._members = [one for one in self._members if one not in beaten] + [setting]
