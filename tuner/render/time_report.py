"""The seconds of a job for a program: those of each phase, of the step, and of a checkpoint."""

from typing import Annotated, NamedTuple

from msgspec import Meta

from tuner.consultation.between_steps import PricedValidation
from tuner.evidence import Evidence
from tuner.field_marks import HighSeconds, LowSeconds, RatesOf, Seconds
from tuner.hardware import Cluster
from tuner.render.publication import extended, publish
from tuner.timing import (
    Interval,
    Narrowing,
    PhaseTime,
    StepTime,
    narrowings,
    phase_interval,
    step_interval,
)
from tuner.timing.saving import SavingTime, storage_bytes_per_s
from tuner.timing.validating import ValidationTime
from tuner.workload import Workload


class TimePart(NamedTuple):
    """What some of a phase's seconds are spent on."""

    name: str
    seconds: Seconds


class PhaseTimeReport(PhaseTime, frozen=True, kw_only=True, eq=False):
    """The time of one phase, with its interval."""

    parts: tuple[TimePart, ...]
    interval: Interval

    @property
    def low_s(self) -> LowSeconds:
        """The lower end of the interval."""
        return self.interval.low_s

    @property
    def high_s(self) -> HighSeconds:
        """The upper end of the interval."""
        return self.interval.high_s

    @property
    def evidence(self) -> Annotated[Evidence, Meta(description="what most of the seconds rest on")]:
        """What stands behind the seconds."""
        return self.interval.evidence

    @property
    def rates_of(self) -> RatesOf:
        """The card that was measured."""
        return self.interval.rates_of


class SavingTimeReport(SavingTime, frozen=True, kw_only=True):
    """What a checkpoint takes each time that one is written; it is no part of the step's seconds."""

    waits: Annotated[PhaseTimeReport, Meta(description="in which training stands still")]
    storage_bytes_per_s: Annotated[float, Meta(description="what a node writes")]
    storage_assumed: Annotated[bool, Meta(description="nobody said how fast the storage is")]


class ValidationTimeReport(ValidationTime, frozen=True, kw_only=True):
    """What a validation takes each time, without its rewards; it is no part of the step's seconds."""

    seconds: Annotated[Interval, Meta(description="of one validation")]
    phases: Annotated[
        tuple[PhaseTimeReport, ...],
        Meta(description="generation, and new weights where every batch of it has them"),
    ]
    key: Annotated[str, Meta(description="that says how often it comes")]


class StepTimeReport(Interval, frozen=True, kw_only=True):
    """The time of the whole step."""

    lengths_assumed: Annotated[
        bool,
        Meta(description="nobody said how long responses are; the interval does not count that"),
    ]
    narrowed_by: Annotated[
        tuple[Narrowing, ...],
        Meta(description="what nobody said and the interval counts, what would narrow it most first"),
    ] = ()

    @classmethod
    def of(cls, interval: Interval, time: StepTime, workload: Workload) -> "StepTimeReport":
        """The interval of a step's seconds, at the lengths of a job, and what would make it narrower."""
        return extended(
            cls,
            interval,
            lengths_assumed=workload.batch.known_mean_tokens is None,
            narrowed_by=narrowings(time, workload.cluster),
        )


publish(TimePart, "TimePart", *TimePart._fields)
publish(
    PhaseTimeReport,
    "PhaseTimeReport",
    *("phase", "seconds", "parts", "low_s", "high_s", "evidence", "rates_of"),
    text="The time of one phase.",
)
publish(
    SavingTimeReport,
    "SavingTimeReport",
    *("waits", "background_s", "written_bytes", "storage_bytes_per_s", "storage_assumed"),
    *("every_steps", "step_seconds"),
)
publish(
    ValidationTimeReport,
    "ValidationTimeReport",
    *("seconds", "phases", "rows", "rows_known", "batches", "every_steps", "before_training", "step_seconds"),
    "key",
)


def phase_times(time: StepTime, cluster: Cluster) -> tuple[PhaseTimeReport, ...]:
    """The time of each phase."""
    return tuple(_phase_time(phase, cluster) for phase in time.phases)


def _phase_time(phase: PhaseTime, cluster: Cluster) -> PhaseTimeReport:
    parts = tuple(TimePart(name, seconds) for name, seconds in phase.parts)
    return extended(PhaseTimeReport, phase, parts=parts, interval=phase_interval(phase, cluster))


def saving_report(saving: SavingTime | None, cluster: Cluster) -> SavingTimeReport | None:
    """What a checkpoint takes; None of a job that writes none."""
    if saving is None:
        return None
    return extended(
        SavingTimeReport,
        saving,
        waits=_phase_time(saving.waits, cluster),
        storage_bytes_per_s=storage_bytes_per_s(cluster),
        storage_assumed=cluster.storage_bytes_per_s is None,
    )


def validation_report(priced: PricedValidation | None, cluster: Cluster) -> ValidationTimeReport | None:
    """What a validation takes; None of a job without, and where it has no price."""
    if priced is None:
        return None
    return extended(
        ValidationTimeReport,
        priced.time,
        seconds=step_interval(priced.time.time, cluster),
        phases=phase_times(priced.time.time, cluster),
        key=priced.how.key,
    )
