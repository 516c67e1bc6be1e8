"""Measured passes and steps beside their predictions, machine-readable. Nothing is rounded."""

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from tuner import __version__
from tuner.accuracy import (
    ComparedFile,
    PassComparison,
    Ratios,
    RunRemark,
    Series,
    SettingPair,
    Summary,
    TimedFile,
    TimedPhase,
    UnreadLine,
    ratios,
    series,
    summarise,
)
from tuner.accuracy.recorded_runs import RecordedPeak
from tuner.accuracy.seconds import UnpredictedRecord, Utilisation
from tuner.render import memory_report  # noqa: F401 - says how a term is published
from tuner.render.json_text import json_text
from tuner.render.publication import extended, publish
from tuner.render.report_values import SCHEMA_VERSION, SchemaVersion


class CaseReport(PassComparison, frozen=True, kw_only=True):
    """One measured pass and its prediction, with its place, under names that say what is counted."""

    source: str
    index: Annotated[int, Meta(description="of the case in its file, from 0")]

    @property
    def predicted_peak_bytes(
        self,
    ) -> Annotated[int, Meta(description="bytes at the peak of PyTorch's allocator, with foreign_bytes")]:
        """The predicted peak."""
        return self.predicted_peak

    @property
    def measured_peak_bytes(
        self,
    ) -> Annotated[int, Meta(description="bytes at the peak of PyTorch's allocator")]:
        """The measured peak."""
        return self.measured_peak

    @property
    def interval_bytes(
        self,
    ) -> Annotated[
        tuple[int, int],
        Meta(description="the least and the most bytes that PyTorch's allocator may reserve"),
    ]:
        """The interval of what is reserved."""
        return self.interval

    @property
    def measured_reserved_bytes(
        self,
    ) -> Annotated[
        int | None, Meta(description="bytes that it had reserved at most; null where not recorded")
    ]:
        """What was reserved."""
        return self.case.peak_reserved_bytes

    @property
    def predicted_added_bytes(
        self,
    ) -> Annotated[int, Meta(description="bytes of the peak that the pass adds")]:
        """The predicted addition."""
        return self.predicted_added

    @property
    def measured_added_bytes(
        self,
    ) -> Annotated[int, Meta(description="the peak less what the pass began with")]:
        """The measured addition."""
        return self.measured_added

    @property
    def foreign_bytes(
        self,
    ) -> Annotated[int, Meta(description="bytes that something else than the engine held before the pass")]:
        """What was there already."""
        return self.foreign


class SecondsReport(TimedPhase, frozen=True, kw_only=True):
    """One phase of a step, or a whole step, whose seconds were measured, with its file."""

    source: str


class UtilisationReport(Utilisation, frozen=True, kw_only=True):
    """Model FLOP utilisation of the actor's update, with its file."""

    source: str


class UnpredictedReport(UnpredictedRecord, frozen=True, kw_only=True):
    """A record that nothing is predicted for, with its file."""

    source: str


class RemarkReport(RunRemark, frozen=True, kw_only=True):
    """Something to know of how a run was predicted, with its file."""

    source: str


class UnreadReport(UnreadLine, frozen=True, kw_only=True):
    """A line that could not be read, with its file."""

    source: str


class PairReport(SettingPair, frozen=True, kw_only=True):
    """Two runs that differ in one setting, with their file."""

    source: str


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
        tuple[RecordedPeak, ...], Meta(description="peaks of the phases of recorded runs")
    ] = ()
    remarks: Annotated[
        tuple[RemarkReport, ...], Meta(description="keys without effect, and passes that were not made")
    ] = ()
    unread: Annotated[tuple[UnreadReport, ...], Meta(description="lines that could not be read")] = ()
    pairs: Annotated[
        tuple[PairReport, ...], Meta(description="runs of one file that differ in one setting, by phase")
    ] = ()


publish(
    CaseReport,
    "CaseReport",
    *("source", "index", "case", "predicted_peak_bytes", "measured_peak_bytes", "error", "interval_bytes"),
    *("measured_reserved_bytes", "reserved_in_interval", "predicted_added_bytes", "measured_added_bytes"),
    *("added_error", "foreign_bytes", "moment", "terms"),
    text="One measured pass and its prediction.",
)
publish(
    SecondsReport,
    "SecondsReport",
    *("source", "case", "phase", "origin", "model", "gpu", "gpus", "predicted_s", "low_s", "high_s"),
    *("measured_s", "inside"),
    text="One phase of a step, or a whole step, whose seconds were measured.",
    types={
        "origin": Annotated[
            Literal["run", "first step", "warm pass", "single pass"],
            Meta(description="a step of a run, its first one, a pass that was repeated, or one call"),
        ]
    },
)
publish(
    RecordedPeak,
    "RecordedReport",
    *("case", "phase", "predicted_bytes", "predicted_high_bytes", "measured_bytes", "error"),
    *("predicted_reserved_bytes", "measured_reserved_bytes", "reserved_inside"),
    text="The peak of one phase of a recorded run, over all ranks and steps.",
)
publish(
    UtilisationReport,
    "UtilisationReport",
    *("source", "case", "predicted", "printed"),
    text="Model FLOP utilisation of the actor's update, by the trainer's own formula.",
)
publish(
    UnpredictedReport,
    "UnpredictedReport",
    *("source", "case", "reason"),
    text="A record that nothing is predicted for.",
)
publish(
    RemarkReport,
    "RemarkReport",
    *("source", "case", "text"),
    text="Something to know of how a run was predicted.",
)
publish(
    UnreadReport,
    "UnreadReport",
    *("source", "line", "reason"),
    text="A line of a file of runs that could not be read, so that it was left out.",
)
publish(
    PairReport,
    "PairReport",
    *("source", "first", "second", "key", "values", "phase", "predicted_s", "measured_s"),
    *("predicted_share", "low_share", "high_share", "measured_share", "sign_right", "inside"),
    text="One phase of two runs of a file that differ in one setting.",
)


def accuracy_json(files: Sequence[ComparedFile], timed: Sequence[TimedFile]) -> str:
    """All passes, steps and recorded peaks, and their summaries, as JSON."""
    comparisons = [row for file in files for row in file.comparisons]
    phases = [phase for file in timed for phase in file.phases]
    written = AccuracyReport(
        tuner_version=__version__,
        cases=tuple(
            extended(CaseReport, row, source=file.source, index=index)
            for file in files
            for index, row in enumerate(file.comparisons)
        ),
        summary=summarise(comparisons) if comparisons else None,
        seconds=tuple(
            extended(SecondsReport, phase, source=file.source) for file in timed for phase in file.phases
        ),
        seconds_summary=ratios(phases),
        series=series(phases),
        utilisation=tuple(
            extended(UtilisationReport, one, source=file.source)
            for file in timed
            for one in file.utilisations
        ),
        left_out=tuple(
            extended(UnpredictedReport, one, source=file.source) for file in timed for one in file.left_out
        ),
        recorded=tuple(peak for file in timed for peak in file.peaks),
        remarks=tuple(
            extended(RemarkReport, one, source=file.source) for file in timed for one in file.remarks
        ),
        unread=tuple(
            extended(UnreadReport, one, source=file.source) for file in timed for one in file.unread
        ),
        pairs=tuple(extended(PairReport, one, source=file.source) for file in timed for one in file.pairs),
    )
    return json_text(written)
