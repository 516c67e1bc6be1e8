"""What ``tuner check`` prints as JSON: structs, published as a JSON Schema."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tuner.errors import Location
from tuner.evidence import Evidence
from tuner.field_marks import Bytes, Seconds
from tuner.findings import Severity
from tuner.render.report_values import SCHEMA_VERSION, SchemaVersion


class FixEdit(Struct, frozen=True, kw_only=True):
    """A piece of a file and what stands there afterwards."""

    start: Annotated[int, Meta(description="bytes from the beginning of the file")]
    end: Annotated[int, Meta(description="behind the last byte that is replaced")]
    text: str


class FixReport(Struct, frozen=True, kw_only=True):
    """Edits of one file that fix a finding."""

    title: str
    path: str
    safe: Annotated[
        bool,
        Meta(
            description="the training computes the same: tuner check --fix may apply it, else --unsafe-fixes"
        ),
    ]
    edits: tuple[FixEdit, ...]


class CheckLine(Struct, frozen=True, kw_only=True):
    """One finding of ``tuner check``."""

    input: Annotated[str, Meta(description="the input that was checked")]
    path: Annotated[str, Meta(description="where the finding stands: the input, a file of it, an override")]
    line: int
    column: Annotated[int, Meta(description="in characters; of the value where it stands in the line")]
    end_column: Annotated[int | None, Meta(description="behind the value; null where none is found")] = None
    severity: Severity
    code: str
    name: str
    message: str
    notes: tuple[str, ...] = ()
    evidence: Evidence
    key: Annotated[
        str | None, Meta(description="the configuration key; null of a finding on the whole job")
    ] = None
    origin: Annotated[
        str | None, Meta(description="where the value came from, where that is no line of the input")
    ] = None
    overrides: tuple[str, ...]
    url: Annotated[str | None, Meta(description="the rule's page; null where no documentation is named")] = (
        None
    )
    fingerprint: Annotated[str, Meta(description="stays the same when lines move")]
    fix: FixReport | None = None
    no_fix: Annotated[str | None, Meta(description="why there is no fix, where one could be expected")] = None


class SilencedLine(Struct, frozen=True, kw_only=True):
    """A finding that is known and accepted, and so not reported."""

    finding: CheckLine
    by: Annotated[Literal["inSource", "external"], Meta(description="a comment in the file, or a baseline")]
    reason: str


class CheckedGpu(Struct, frozen=True, kw_only=True):
    """The card that files were checked for."""

    name: str
    memory_bytes: Annotated[int, Meta(description="bytes that processes can have")]
    reason: Annotated[str, Meta(description="which option named it, or how it was found")]
    assumed: Annotated[bool, Meta(description="nothing named the card")]


class JudgedForReport(Struct, frozen=True, kw_only=True):
    """What one input was judged for, and why."""

    trainer: str
    release: str
    release_reason: str
    engine: Annotated[str | None, Meta(description="null where the trainer generates by itself")]
    engine_reason: str | None
    gpu: CheckedGpu


class CheckedPhase(Struct, frozen=True, kw_only=True):
    """Memory and seconds of one phase on one GPU."""

    phase: str
    peak_bytes: Bytes
    low_bytes: Bytes
    high_bytes: Bytes
    seconds: Seconds | None
    low_s: Seconds | None
    high_s: Seconds | None


class CheckedInput(Struct, frozen=True, kw_only=True):
    """One input that was checked."""

    source: str
    unreadable: Annotated[str | None, Meta(description="why it cannot be used")] = None
    location: Annotated[Location | None, Meta(description="where it cannot be used")] = None
    judged_for: JudgedForReport | None = None
    gpus: Annotated[int, Meta(description="of the whole job; 0 where the input cannot be used")] = 0
    phases: tuple[CheckedPhase, ...] = ()
    step_s: Annotated[Seconds | None, Meta(description="seconds of one step")] = None
    low_s: Seconds | None = None
    high_s: Seconds | None = None


class CheckReport(Struct, frozen=True, kw_only=True):
    """What ``tuner check`` found in all files together, worst first within a file."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    gpu: Annotated[
        CheckedGpu | None, Meta(description="the card, where all inputs were judged for the same one")
    ]
    inputs: tuple[CheckedInput, ...]
    skipped: Annotated[
        tuple[str, ...], Meta(description="files in folders that are no configuration of a trainer")
    ]
    findings: tuple[CheckLine, ...]
    silenced: tuple[SilencedLine, ...]
    unreadable: Annotated[tuple[str, ...], Meta(description="messages on files that cannot be used")]
