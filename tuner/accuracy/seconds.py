"""Predicted seconds beside measured ones, and how far they are apart over many of them."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from tuner.accuracy.recorded_runs import RecordedPeak
from tuner.accuracy.runs import UnreadLine

#: A prediction counts as close where it is no further off, as a share of what was measured.
CLOSE = 0.15
#: Seconds below which a timer has timed nothing.
LEAST_S = 1e-6
_LEAST_OF_SERIES = 4  # settings, below which their order says little
_Key = TypeVar("_Key")


class MeasurementOrigin(str, Enum):
    """What the seconds were measured of."""

    RUN = "run"  # a step of a training run, as its trainer's timers tell
    FIRST_STEP = "first step"  # the same of a run's first one, which compiles and fills caches
    WARM_PASS = "warm pass"  # the median of a pass that was repeated on a warm GPU
    SINGLE_PASS = "single pass"  # one call, with what its first use brings


class TimedPhase(Struct, frozen=True, kw_only=True):
    """One phase of a step, or a whole step, whose seconds were predicted and measured."""

    case: Annotated[str, Meta(description="the run, or the pass and its place in the file")]
    phase: Annotated[str, Meta(description="a phase's name, or step")]
    origin: MeasurementOrigin
    model: str
    gpu: str  # name of the card's profile
    gpus: int
    predicted_s: float
    low_s: Annotated[float, Meta(description="ends of the predicted interval")]
    high_s: float
    measured_s: float

    @property
    def ratio(self) -> float:
        """Predicted over measured seconds; above 1: predicted too long."""
        return self.predicted_s / self.measured_s

    @property
    def inside(self) -> Annotated[bool, Meta(description="the measured seconds lie in the interval")]:
        """Whether the measured seconds lie in the predicted interval."""
        return self.low_s <= self.measured_s <= self.high_s

    @property
    def width(self) -> float:
        """The upper end of the interval over the lower one: 1 where nothing is left open."""
        return self.high_s / self.low_s if self.low_s else math.inf


class Utilisation(Struct, frozen=True, kw_only=True):
    """Model FLOP utilisation of the actor's update, as the trainer counts it."""

    case: str
    predicted: Annotated[float, Meta(description="with the predicted seconds")]
    printed: Annotated[float, Meta(description="by the trainer")]


class UnpredictedRecord(Struct, frozen=True, kw_only=True):
    """A record that nothing is predicted for."""

    case: str
    reason: str


class SettingPair(Struct, frozen=True, kw_only=True):
    """One phase of two runs of a file that differ in one setting, from the first run to the second."""

    first: Annotated[str, Meta(description="the run")]
    second: Annotated[str, Meta(description="the other run")]
    key: Annotated[str, Meta(description="the setting that differs")]
    values: Annotated[tuple[str | None, str | None], Meta(description="in both; null where it is not set")]
    phase: Annotated[str, Meta(description="a phase's name, or step")]
    predicted_s: Annotated[tuple[float, float], Meta(description="seconds of the first and the second")]
    measured_s: Annotated[tuple[float, float], Meta(description="seconds of the first and the second")]
    low_share: Annotated[
        float, Meta(description="least predicted change, as a share of the first; what both share cancels")
    ]
    high_share: Annotated[float, Meta(description="most predicted change, as a share of the first")]

    @property
    def predicted_share(self) -> Annotated[float, Meta(description="predicted change, as a share")]:
        """The predicted change, as a share of the first run's predicted seconds."""
        return self.predicted_s[1] / self.predicted_s[0] - 1

    @property
    def measured_share(self) -> Annotated[float, Meta(description="measured change, as a share")]:
        """The measured change, as a share of the first run's measured seconds."""
        return self.measured_s[1] / self.measured_s[0] - 1

    @property
    def sign_right(
        self,
    ) -> Annotated[bool | None, Meta(description="null where no change is predicted")]:
        """Whether the change has the predicted direction; None where none is predicted."""
        predicted, measured = self.predicted_share, self.measured_share
        return None if not predicted else (predicted > 0) == (measured > 0)

    @property
    def inside(self) -> Annotated[bool, Meta(description="the measured change lies in the interval")]:
        """Whether the measured change lies in the predicted interval."""
        return self.low_share <= self.measured_share <= self.high_share


class RunRemark(Struct, frozen=True, kw_only=True):
    """Something to know of how a run was predicted: a key without effect, a pass that was not made."""

    case: str
    text: str


class TimedFile(Struct, frozen=True, kw_only=True):
    """What a file has of measured seconds, and of what was measured beside them."""

    source: str
    phases: tuple[TimedPhase, ...] = ()
    utilisations: tuple[Utilisation, ...] = ()
    left_out: tuple[UnpredictedRecord, ...] = ()
    remarks: tuple[RunRemark, ...] = ()
    unread: tuple[UnreadLine, ...] = ()
    peaks: tuple[RecordedPeak, ...] = ()
    pairs: tuple[SettingPair, ...] = ()


class Ratios(Struct, frozen=True, kw_only=True):
    """Predicted over measured seconds of one phase on one card."""

    origin: str
    phase: str
    gpu: str
    count: int
    median: float
    p10: float  # of ten ratios one is lower; with ``p90`` the ends of the middle 80 %
    p90: float
    median_error: float  # without its sign, as a share of what was measured
    close: float  # share of the predictions that are no more than 15 % off
    inside: float  # share of the measured seconds that are inside the predicted interval
    width: Annotated[float, Meta(description="median of the interval's upper end over its lower one")]


class Series(Struct, frozen=True, kw_only=True):
    """Whether the predictions order the settings of one model on one card as the measurements do."""

    origin: str
    phase: str
    gpu: str
    model: str
    count: int
    rank_correlation: float  # Spearman's, from -1 to 1


def ratios(phases: Iterable[TimedPhase]) -> tuple[Ratios, ...]:
    """A summary for each kind of measurement, phase and card, in the order in which they first come."""
    groups = _grouped(phases, lambda timed: (timed.origin.value, timed.phase, timed.gpu))
    return tuple(
        _ratios(rows, origin=origin, phase=phase, gpu=gpu) for (origin, phase, gpu), rows in groups.items()
    )


def _ratios(rows: Sequence[TimedPhase], *, origin: str, phase: str, gpu: str) -> Ratios:
    ranked = sorted(row.ratio for row in rows)
    errors = [abs(ratio - 1) for ratio in ranked]
    # The ends of the tenths; a single ratio is all of them.
    tenths = statistics.quantiles(ranked, n=10, method="inclusive") if len(ranked) > 1 else ranked
    return Ratios(
        origin=origin,
        phase=phase,
        gpu=gpu,
        count=len(rows),
        median=statistics.median(ranked),
        p10=tenths[0],
        p90=tenths[-1],
        median_error=statistics.median(errors),
        close=sum(error <= CLOSE for error in errors) / len(errors),
        inside=sum(row.inside for row in rows) / len(rows),
        width=statistics.median(row.width for row in rows),
    )


def series(phases: Iterable[TimedPhase]) -> tuple[Series, ...]:
    """Rank correlations for each phase of one model on one card that has some settings to order."""
    groups = _grouped(phases, lambda timed: (timed.origin.value, timed.phase, timed.gpu, timed.model))
    correlations = []
    for (origin, phase, gpu, model), rows in groups.items():
        predicted, measured = [row.predicted_s for row in rows], [row.measured_s for row in rows]
        if len(rows) < _LEAST_OF_SERIES or len(set(predicted)) == 1 or len(set(measured)) == 1:
            continue
        correlations.append(
            Series(
                origin=origin,
                phase=phase,
                gpu=gpu,
                model=model,
                count=len(rows),
                rank_correlation=rank_correlation(predicted, measured),
            )
        )
    return tuple(correlations)


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: Pearson's correlation of the ranks, equal values sharing the mean of theirs.

    Raises:
        statistics.StatisticsError: there are fewer than two pairs, or one side is constant.
    """
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(values: Sequence[float]) -> list[float]:
    ranked = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ranked)))}
    last = {value: place for place, value in enumerate(ranked)}
    return [(first[value] + last[value]) / 2 for value in values]


def _grouped(phases: Iterable[TimedPhase], key: Callable[[TimedPhase], _Key]) -> dict[_Key, list[TimedPhase]]:
    groups: dict[_Key, list[TimedPhase]] = defaultdict(list)
    for timed in phases:
        groups[key(timed)].append(timed)
    return dict(groups)
