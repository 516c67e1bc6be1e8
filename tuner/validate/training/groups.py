"""Training passes to run, the engines that run them, and the recommendations that they decide about."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tuner.advise import Recommendation
from tuner.validate.training.depths import Depths
from tuner.validate.training.passes import PlannedPass
from tuner.validate.training.settings import PassSettings

Key = tuple[PassSettings, bool]


@dataclass(frozen=True, kw_only=True)
class Try:
    """One pass that is run, whole or at two depths."""

    planned: PlannedPass
    at: Depths | None  # None: the full model
    reason: str = ""  # why it cannot be run; empty where it can

    @property
    def key(self) -> Key:
        """What tells it from others; equal passes are run once."""
        return self.planned.settings, self.planned.model.value_head

    @property
    def layers(self) -> tuple[int, ...]:
        """The depths that it takes."""
        return (self.planned.model.layers,) if self.at is None else (self.at.lower, self.at.upper)


@dataclass(frozen=True, kw_only=True)
class ProposedPass:
    """A recommendation that changes a training pass, and the pass that decides about it."""

    recommendation: Recommendation
    before: Try | None
    after: Try | None
    reason: str = ""  # why it cannot be judged; empty where it can


@dataclass(frozen=True, kw_only=True)
class PassGroup:
    """Passes that one engine at one depth runs in one process."""

    layers: int
    critic: bool
    tries: tuple[Try, ...]  # the most valuable first
    start_s: float  # expected, before the first pass
    pass_s: tuple[float, ...]  # expected, of each

    @property
    def seconds(self) -> float:
        """Expected of all."""
        return self.start_s + sum(self.pass_s)

    def within(self, seconds: float) -> "PassGroup":
        """As many of its passes as are likely to be done in this time; one that is too long is left out."""
        kept, taken = [], self.start_s
        for attempt, needed in self._pairs:
            if taken + needed <= seconds:
                kept.append((attempt, needed))
                taken += needed
        return self._with(kept)

    def after(self, done: Container[Key]) -> "PassGroup":
        """The passes that are left once these are done."""
        return self._with([(attempt, needed) for attempt, needed in self._pairs if attempt.key not in done])

    def seconds_of(self, wanted: Container[Key]) -> float:
        """Expected of these of its passes; none where it has none of them."""
        needs = [needed for attempt, needed in self._pairs if attempt.key in wanted]
        return sum(needs, self.start_s) if needs else 0.0

    @property
    def _pairs(self) -> Iterator[tuple[Try, float]]:
        return zip(self.tries, self.pass_s, strict=True)

    def _with(self, kept: Sequence[tuple[Try, float]]) -> "PassGroup":
        return replace(
            self, tries=tuple(attempt for attempt, _ in kept), pass_s=tuple(needed for _, needed in kept)
        )


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Everything that the part would run."""

    configured: tuple[Try, ...]
    proposed: tuple[ProposedPass, ...]
    groups: tuple[PassGroup, ...]
    notes: tuple[str, ...] = field(default=())
