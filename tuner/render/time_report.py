"""The seconds of a job for a program: those of each phase, of the step, and of a checkpoint."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.evidence import Evidence
from tuner.hardware import Cluster
from tuner.render.report_values import HighSeconds, LowSeconds, RatesOf, Seconds
from tuner.timing import Interval, PhaseTime, StepTime, phase_interval
from tuner.timing.saving import SavingTime, storage_bytes_per_s
from tuner.workload import Batch, Phase


class TimePart(Struct, frozen=True, kw_only=True):
    """What some of a phase's seconds are spent on."""

    name: str
    seconds: Seconds


class PhaseTimeReport(Struct, frozen=True, kw_only=True):
    """The time of one phase."""

    phase: Phase
    seconds: Seconds
    parts: tuple[TimePart, ...]
    low_s: LowSeconds
    high_s: HighSeconds
    evidence: Annotated[Evidence, Meta(description="what most of the seconds rest on")]
    rates_of: RatesOf


class SavingTimeReport(Struct, frozen=True, kw_only=True):
    """What a checkpoint takes each time that one is written; it is no part of the step's seconds."""

    waits: Annotated[PhaseTimeReport, Meta(description="in which training stands still")]
    background_s: Annotated[Seconds, Meta(description="in which files are written while training goes on")]
    written_bytes: Annotated[int, Meta(description="of all ranks, every model that is saved")]
    storage_bytes_per_s: Annotated[float, Meta(description="what a node writes")]
    storage_assumed: Annotated[bool, Meta(description="nobody said how fast the storage is")]
    every_steps: Annotated[int | None, Meta(description="null: at the end of the job alone")]
    step_seconds: Annotated[
        float | None, Meta(description="spread over the steps from one checkpoint to the next")
    ]


class StepTimeReport(Struct, frozen=True, kw_only=True):
    """The time of the whole step."""

    seconds: Seconds
    low_s: LowSeconds
    high_s: HighSeconds
    evidence: Annotated[Evidence, Meta(description="what most of the seconds rest on")]
    rates_of: RatesOf
    lengths_assumed: Annotated[
        bool,
        Meta(description="nobody said how long responses are; the interval does not count that"),
    ]

    @classmethod
    def of(cls, interval: Interval, batch: Batch) -> "StepTimeReport":
        """The interval of a step's seconds, at the lengths of a job."""
        return cls(
            seconds=interval.seconds,
            low_s=interval.low_s,
            high_s=interval.high_s,
            evidence=interval.evidence,
            rates_of=interval.rates_of,
            lengths_assumed=batch.known_mean_tokens is None,
        )


def phase_times(time: StepTime, cluster: Cluster) -> tuple[PhaseTimeReport, ...]:
    """The time of each phase."""
    return tuple(_phase_time(phase, cluster) for phase in time.phases)


def _phase_time(phase: PhaseTime, cluster: Cluster) -> PhaseTimeReport:
    interval = phase_interval(phase, cluster)
    return PhaseTimeReport(
        phase=phase.phase,
        seconds=phase.seconds,
        parts=tuple(TimePart(name=name, seconds=seconds) for name, seconds in phase.parts),
        low_s=interval.low_s,
        high_s=interval.high_s,
        evidence=interval.evidence,
        rates_of=interval.rates_of,
    )


def saving_report(saving: SavingTime | None, cluster: Cluster) -> SavingTimeReport | None:
    """What a checkpoint takes; None of a job that writes none."""
    if saving is None:
        return None
    return SavingTimeReport(
        waits=_phase_time(saving.waits, cluster),
        background_s=saving.background_s,
        written_bytes=saving.written_bytes,
        storage_bytes_per_s=storage_bytes_per_s(cluster),
        storage_assumed=cluster.storage_bytes_per_s is None,
        every_steps=saving.every_steps,
        step_seconds=saving.step_seconds,
    )
