"""Files of measured steps of training runs: one JSON object a line, as a pydantic model, and their reader."""

import json
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.accuracy.measured_files import MAX_BYTES, MeasuredFile, parse_measured, problem
from tuner.errors import InputError, Location
from tuner.files import read_bytes
from tuner.language import _
from tuner.trainers.registry import DEFAULT
from tuner.units import LARGEST
from tuner.workload import Phase

_LINES = ".jsonl"
Length = Annotated[float, Field(gt=0, le=LARGEST, description="tokens")]
PeakBytes = Annotated[int, Field(gt=0, le=LARGEST)]


class MeasuredPeak(BaseModel):
    """The highest memory of one phase of a run over all ranks, in the trainer's process."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, title="measured peak of a phase")

    allocated_bytes: Annotated[PeakBytes, Field(description="bytes that PyTorch's allocator handed out")]
    reserved_bytes: Annotated[
        PeakBytes | None, Field(description="bytes of the card that it took; null where nobody says")
    ] = None


class MeasuredRun(BaseModel):
    """The steps of one training run: its settings, its card, its lengths and its trainer's metrics."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, title="measured steps of a run"
    )

    id: Annotated[str, Field(min_length=1, description="names the run in the answer")]
    source: Annotated[str, Field(description="where the figures were published or logged")] = ""
    framework: Annotated[str, Field(description="the trainer")] = DEFAULT.name
    verl_version: Annotated[str, Field(min_length=1, description="release of the trainer")]
    gpu: Annotated[str | None, Field(description="profile of the card; null where nobody says")] = None
    n_gpus: Annotated[int, Field(ge=1, le=1_000_000, description="of one node")]
    nnodes: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    overrides: Annotated[tuple[str, ...], Field(min_length=1, description="the settings, as key=value")]
    prompt_length_mean: Length
    response_length_mean: Length
    lengths_from: Annotated[str, Field(description="logged, or what they were derived from")] = ""
    note: Annotated[
        str | None,
        Field(description="what the run had beside these settings; switches named by their key are read"),
    ] = None
    measured: Annotated[
        dict[str, float],
        Field(
            min_length=1,
            description="metrics by the trainer's names, such as timing_s/gen; what they tell of lengths and "
            "rounds, such as response_length/max, is what the run is predicted with",
        ),
    ]
    peaks: Annotated[dict[Phase, MeasuredPeak], Field(description="by the phase as advise names it")] = {}


class UnreadLine(Struct, frozen=True, kw_only=True):
    """A line of a file of runs that is no run, so that it was left out."""

    line: Annotated[int, Meta(description="of the file, from 1")]
    reason: str


class RunsFile(Struct, frozen=True, kw_only=True):
    """The measured steps of runs that a file holds, and the lines of it that could not be read."""

    runs: tuple[MeasuredRun, ...]  # one at least
    unread: tuple[UnreadLine, ...] = ()


def read_records(file: Path) -> MeasuredFile | RunsFile:
    """Read a file of measured passes, or one of measured steps of runs; the content tells which.

    A line that is no run is left out and named, as long as another one is.

    Raises:
        InputError: it cannot be read, or is neither.
    """
    content = read_bytes(file, most=MAX_BYTES)
    if file.suffix == _LINES or _has_runs(content):
        return _runs(file, content)
    return parse_measured(file, content)


def _has_runs(content: bytes) -> bool:
    """Whether the first line is a run of its own."""
    line = content.lstrip().split(b"\n", 1)[0]
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "overrides" in first and "cases" not in first


def _runs(file: Path, content: bytes) -> RunsFile:
    runs: dict[str, tuple[int, MeasuredRun]] = {}
    unread: list[UnreadLine] = []
    first: InputError | None = None
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        run = _run(file, number, line)
        if isinstance(run, InputError):
            first = first or run
            what = f"{run.key}: {run.message}" if run.key else run.message
            unread.append(UnreadLine(line=number, reason=what))
            continue
        if run.id in runs:
            reason = _("line {line} has the same id {name}").format(line=runs[run.id][0], name=run.id)
            unread.append(UnreadLine(line=number, reason=reason))
            continue
        runs[run.id] = (number, run)
    if not runs:
        raise first or InputError(_("the file is empty"), location=Location(source=str(file)))
    return RunsFile(runs=tuple(run for _line, run in runs.values()), unread=tuple(unread))


def _run(file: Path, number: int, line: bytes) -> MeasuredRun | InputError:
    """The run of a line, or what is wrong with the line."""
    try:
        return MeasuredRun.model_validate_json(line)
    except ValidationError as error:
        return problem(
            error,
            Location(source=str(file), line=number),
            hint=_("tuner schema runs prints what such a line holds"),
        )
