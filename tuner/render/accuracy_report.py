"""Measured passes beside their predictions, machine-readable. Nothing is rounded."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner import __version__
from tuner.accuracy import ComparedFile, Comparison, MeasuredCase, Summary, summarise
from tuner.render.report import SCHEMA_VERSION, TermReport
from tuner.render.struct_models import STRUCTS

Error = Annotated[float, Field(description="predicted / measured - 1")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class CaseReport(_Model):
    """One measured pass and its prediction."""

    source: str
    index: Annotated[int, Field(description="of the case in its file, from 0")]
    case: MeasuredCase
    predicted_peak_bytes: Annotated[
        int, Field(description="bytes at the peak of PyTorch's allocator, with foreign_bytes")
    ]
    measured_peak_bytes: Annotated[int, Field(description="bytes at the peak of PyTorch's allocator")]
    error: Error
    interval_bytes: Annotated[
        tuple[int, int],
        Field(description="the least and the most bytes that PyTorch's allocator may reserve"),
    ]
    measured_reserved_bytes: Annotated[
        int | None, Field(description="bytes that it had reserved at most; null where not recorded")
    ]
    reserved_in_interval: Annotated[bool | None, Field(description="null where not recorded")]
    predicted_added_bytes: Annotated[int, Field(description="bytes of the peak that the pass adds")]
    measured_added_bytes: Annotated[int, Field(description="the peak less what the pass began with")]
    added_error: Error
    foreign_bytes: Annotated[
        int, Field(description="bytes that something else than the engine held before the pass")
    ]
    moment: Annotated[str, Field(description="of the predicted peak")]
    terms: Annotated[tuple[TermReport, ...], Field(description="addends of predicted_peak_bytes")]


class AccuracyReport(_Model):
    """What ``tuner accuracy`` found out about all files together."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="tuner accuracy report")

    schema_version: Literal["3.0"] = SCHEMA_VERSION
    tuner_version: str
    cases: tuple[CaseReport, ...]
    summary: Annotated[Summary, STRUCTS]


def accuracy_json(files: Sequence[ComparedFile]) -> str:
    """All passes and their summary as JSON."""
    return AccuracyReport(
        tuner_version=__version__,
        cases=tuple(
            _case(file.source, index, row) for file in files for index, row in enumerate(file.comparisons)
        ),
        summary=summarise([row for file in files for row in file.comparisons]),
    ).model_dump_json(indent=2, by_alias=True)


def _case(source: str, index: int, row: Comparison) -> CaseReport:
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
        terms=tuple(TermReport.of(term) for term in row.terms),
    )
