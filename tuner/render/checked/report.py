"""What ``tuner check`` prints as JSON: pydantic models, published as a JSON Schema."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from tuner.evidence import Evidence
from tuner.findings import Severity
from tuner.render.report_values import SCHEMA_VERSION, Bytes, InputPlace, ReportModel, SchemaVersion, Seconds


class FixEdit(ReportModel):
    """A piece of a file and what stands there afterwards."""

    start: Annotated[int, Field(description="bytes from the beginning of the file")]
    end: Annotated[int, Field(description="behind the last byte that is replaced")]
    text: str


class FixReport(ReportModel):
    """Edits of one file that fix a finding."""

    title: str
    path: str
    safe: Annotated[
        bool,
        Field(
            description="the training computes the same: tuner check --fix may apply it, else --unsafe-fixes"
        ),
    ]
    edits: tuple[FixEdit, ...]


class CheckLine(ReportModel):
    """One finding of ``tuner check``."""

    input: Annotated[str, Field(description="the input that was checked")]
    path: Annotated[str, Field(description="where the finding stands: the input, a file of it, an override")]
    line: int
    column: Annotated[int, Field(description="in characters; of the value where it stands in the line")]
    end_column: Annotated[int | None, Field(description="behind the value; null where none is found")] = None
    severity: Severity
    code: str
    name: str
    message: str
    notes: tuple[str, ...] = ()
    evidence: Evidence
    key: Annotated[
        str | None, Field(description="the configuration key; null of a finding on the whole job")
    ] = None
    origin: Annotated[
        str | None, Field(description="where the value came from, where that is no line of the input")
    ] = None
    overrides: tuple[str, ...]
    url: Annotated[str | None, Field(description="the rule's page; null where no documentation is named")] = (
        None
    )
    fingerprint: Annotated[str, Field(description="stays the same when lines move")]
    fix: FixReport | None = None
    no_fix: Annotated[str | None, Field(description="why there is no fix, where one could be expected")] = (
        None
    )


class SilencedLine(ReportModel):
    """A finding that is known and accepted, and so not reported."""

    finding: CheckLine
    by: Annotated[Literal["inSource", "external"], Field(description="a comment in the file, or a baseline")]
    reason: str


class CheckedGpu(ReportModel):
    """The card that files were checked for."""

    name: str
    memory_bytes: Annotated[int, Field(description="bytes that processes can have")]
    reason: Annotated[str, Field(description="which option named it, or how it was found")]
    assumed: Annotated[bool, Field(description="nothing named the card")]


class JudgedForReport(ReportModel):
    """What one input was judged for, and why."""

    trainer: str
    release: str
    release_reason: str
    engine: Annotated[str | None, Field(description="null where the trainer generates by itself")]
    engine_reason: str | None
    gpu: CheckedGpu


class CheckedPhase(ReportModel):
    """Memory and seconds of one phase on one GPU."""

    phase: str
    peak_bytes: Bytes
    low_bytes: Bytes
    high_bytes: Bytes
    seconds: Seconds | None
    low_s: Seconds | None
    high_s: Seconds | None


class CheckedInput(ReportModel):
    """One input that was checked."""

    source: str
    unreadable: Annotated[str | None, Field(description="why it cannot be used")] = None
    location: Annotated[InputPlace | None, Field(description="where it cannot be used")] = None
    judged_for: JudgedForReport | None = None
    gpus: Annotated[int, Field(description="of the whole job; 0 where the input cannot be used")] = 0
    phases: tuple[CheckedPhase, ...] = ()
    step_s: Annotated[Seconds | None, Field(description="seconds of one step")] = None
    low_s: Seconds | None = None
    high_s: Seconds | None = None


class CheckReport(ReportModel):
    """What ``tuner check`` found in all files together, worst first within a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="tuner check report")

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    gpu: Annotated[
        CheckedGpu | None, Field(description="the card, where all inputs were judged for the same one")
    ]
    inputs: tuple[CheckedInput, ...]
    skipped: Annotated[
        tuple[str, ...], Field(description="files in folders that are no configuration of a trainer")
    ]
    findings: tuple[CheckLine, ...]
    silenced: tuple[SilencedLine, ...]
    unreadable: Annotated[tuple[str, ...], Field(description="messages on files that cannot be used")]
