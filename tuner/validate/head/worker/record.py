"""What has been measured of each implementation of the output head, while the measurement goes on."""

from dataclasses import dataclass, field

from tuner.kernels.benchmark.timing import Call, Timed
from tuner.validate.head.settings import HeadPass, ImplementationFigures, SizeFigures
from tuner.validate.head.worker.choice import ImplementationChoice


@dataclass(kw_only=True)
class TimedCall:
    """One pass at one size that is to be timed."""

    call: Call
    seconds: float  # of one that was warm
    timed: Timed | None = None


@dataclass(kw_only=True)
class Record:
    """What has been measured of one implementation so far."""

    choice: ImplementationChoice
    missing: str = ""
    errors: dict[str, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)
    peaks: dict[tuple[int, HeadPass], int] = field(default_factory=dict)  # by size
    runs: dict[tuple[int, HeadPass], TimedCall] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)  # of both passes
    forward_tokens: list[int] = field(default_factory=list)  # of the forward pass at the other size

    def implementation(self) -> ImplementationFigures:
        """The record as it is handed to the parent."""
        return ImplementationFigures(
            name=self.choice.name,
            way=self.choice.way,
            foreign=self.choice.foreign,
            missing=self.missing,
            errors=self.errors,
            limits=self.limits,
            sizes=tuple(self._figures(tokens) for tokens in self.tokens),
            forward=tuple(self._figures(tokens) for tokens in self.forward_tokens),
        )

    def _figures(self, tokens: int) -> SizeFigures:
        timed = {
            one_pass: run.timed for (size, one_pass), run in self.runs.items() if size == tokens and run.timed
        }
        return SizeFigures(
            tokens=tokens,
            peak_bytes={one_pass: peak for (size, one_pass), peak in self.peaks.items() if size == tokens},
            seconds={one_pass: timing.median_ms / 1000 for one_pass, timing in timed.items()},
            rounds=min((timing.rounds for timing in timed.values()), default=0),
        )
