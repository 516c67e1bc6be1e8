"""Measured passes and steps beside their predictions, machine-readable. Nothing is rounded."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict

from tuner import __version__
from tuner.accuracy import (
    ComparedFile,
    MeasuredCase,
    PassComparison,
    Ratios,
    Series,
    Summary,
    TimedFile,
    TimedPhase,
    ratios,
    series,
    summarise,
)
from tuner.accuracy.recorded_runs import RecordedPeak
from tuner.memory import Term
from tuner.render import memory_report  # noqa: F401 - says how a term is published
from tuner.render.json_text import json_text
from tuner.render.report_values import SCHEMA_VERSION, SchemaVersion

Error = Annotated[float, Meta(description="predicted / measured - 1")]


class CaseReport(Struct, frozen=True, kw_only=True):
    """One measured pass and its prediction."""

    source: str
    index: Annotated[int, Meta(description="of the case in its file, from 0")]
    case: MeasuredCase
    predicted_peak_bytes: Annotated[
        int, Meta(description="bytes at the peak of PyTorch's allocator, with foreign_bytes")
    ]
    measured_peak_bytes: Annotated[int, Meta(description="bytes at the peak of PyTorch's allocator")]
    error: Error
    interval_bytes: Annotated[
        tuple[int, int],
        Meta(description="the least and the most bytes that PyTorch's allocator may reserve"),
    ]
    measured_reserved_bytes: Annotated[
        int | None, Meta(description="bytes that it had reserved at most; null where not recorded")
    ]
    reserved_in_interval: Annotated[bool | None, Meta(description="null where not recorded")]
    predicted_added_bytes: Annotated[int, Meta(description="bytes of the peak that the pass adds")]
    measured_added_bytes: Annotated[int, Meta(description="the peak less what the pass began with")]
    added_error: Error
    foreign_bytes: Annotated[
        int, Meta(description="bytes that something else than the engine held before the pass")
    ]
    moment: Annotated[str, Meta(description="of the predicted peak")]
    terms: Annotated[tuple[Term, ...], Meta(description="addends of predicted_peak_bytes")]


class SecondsReport(Struct, frozen=True, kw_only=True):
    """One phase of a step, or a whole step, whose seconds were measured."""

    source: str
    case: Annotated[str, Meta(description="the run, or the pass and its place in the file")]
    phase: Annotated[str, Meta(description="a phase's name, or step")]
    origin: Annotated[
        Literal["run", "warm pass", "single pass"],
        Meta(description="a step of a run, a pass that was repeated, or one call"),
    ]
    model: str
    gpu: str
    gpus: int
    predicted_s: float
    low_s: Annotated[float, Meta(description="ends of the predicted interval")]
    high_s: float
    measured_s: float


class RecordedReport(Struct, frozen=True, kw_only=True):
    """The peak of one phase of a recorded run, over all ranks and steps."""

    case: Annotated[str, Meta(description="the run")]
    phase: str
    predicted_bytes: Annotated[int, Meta(description="bytes that PyTorch's allocator hands out at most")]
    predicted_high_bytes: Annotated[int, Meta(description="bytes, with the upper end of every term")]
    measured_bytes: int
    error: Error
    predicted_reserved_bytes: Annotated[
        tuple[int, int], Meta(description="the least and the most bytes that the allocator holds")
    ]
    measured_reserved_bytes: int


class UtilisationReport(Struct, frozen=True, kw_only=True):
    """Model FLOP utilisation of the actor's update, by the trainer's own formula."""

    source: str
    case: str
    predicted: Annotated[float, Meta(description="with the predicted seconds")]
    printed: Annotated[float, Meta(description="by the trainer")]


class UnpredictedReport(Struct, frozen=True, kw_only=True):
    """A record that nothing is predicted for."""

    source: str
    case: str
    reason: str


class AccuracyReport(Struct, frozen=True, kw_only=True):
    """What ``tuner accuracy`` found out about all files together."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    cases: Annotated[tuple[CaseReport, ...], Meta(description="passes whose peaks were measured")]
    summary: Annotated[Summary | None, Meta(description="of the peaks; null without any")]
    seconds: Annotated[tuple[SecondsReport, ...], Meta(description="passes and steps that were timed")]
    seconds_summary: Annotated[
        tuple[Ratios, ...], Meta(description="predicted over measured, by origin, phase and card")
    ]
    series: Annotated[tuple[Series, ...], Meta(description="order of the settings of one model on one card")]
    utilisation: tuple[UtilisationReport, ...]
    left_out: tuple[UnpredictedReport, ...]
    recorded: Annotated[
        tuple[RecordedReport, ...], Meta(description="peaks of the phases of recorded runs")
    ] = ()


def accuracy_json(
    files: Sequence[ComparedFile], timed: Sequence[TimedFile], peaks: Sequence[RecordedPeak] = ()
) -> str:
    """All passes, steps and recorded peaks, and their summaries, as JSON."""
    comparisons = [row for file in files for row in file.comparisons]
    phases = [phase for file in timed for phase in file.phases]
    written = AccuracyReport(
        tuner_version=__version__,
        cases=tuple(
            _case(file.source, index, row) for file in files for index, row in enumerate(file.comparisons)
        ),
        summary=summarise(comparisons) if comparisons else None,
        seconds=tuple(_seconds(file.source, phase) for file in timed for phase in file.phases),
        seconds_summary=ratios(phases),
        series=series(phases),
        utilisation=tuple(
            UtilisationReport(source=file.source, **asdict(one))
            for file in timed
            for one in file.utilisations
        ),
        left_out=tuple(
            UnpredictedReport(source=file.source, **asdict(one)) for file in timed for one in file.left_out
        ),
        recorded=tuple(RecordedReport(**asdict(peak), error=peak.error) for peak in peaks),
    )
    return json_text(written)


def _seconds(source: str, timed: TimedPhase) -> SecondsReport:
    return SecondsReport(source=source, **{**asdict(timed), "origin": timed.origin.value})


def _case(source: str, index: int, row: PassComparison) -> CaseReport:
    return CaseReport(
        source=source,
        index=index,
        case=row.case,
        predicted_peak_bytes=row.predicted_peak,
        measured_peak_bytes=row.measured_peak,
        error=row.error,
        interval_bytes=row.interval,
        measured_reserved_bytes=row.case.peak_reserved_bytes,
        reserved_in_interval=row.reserved_in_interval,
        predicted_added_bytes=row.predicted_added,
        measured_added_bytes=row.measured_added,
        added_error=row.added_error,
        foreign_bytes=row.foreign,
        moment=row.moment,
        terms=row.terms,
    )
