"""Files of measured steps of training runs: one JSON object a line, as a pydantic model, and their reader."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.accuracy.measured_files import MAX_BYTES, MeasuredFile, parse_measured, problem
from tuner.errors import InputError, Location
from tuner.files import read_bytes
from tuner.language import _
from tuner.trainers.registry import DEFAULT
from tuner.units import LARGEST

_LINES = ".jsonl"
Length = Annotated[float, Field(gt=0, le=LARGEST, description="tokens")]


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
        Field(min_length=1, description="metrics by the trainer's names, such as timing_s/gen"),
    ]


def read_records(file: Path) -> MeasuredFile | tuple[MeasuredRun, ...]:
    """Read a file of measured passes, or one of measured steps of runs; the content tells which.

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


def _runs(file: Path, content: bytes) -> tuple[MeasuredRun, ...]:
    runs = []
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            runs.append(MeasuredRun.model_validate_json(line))
        except ValidationError as error:
            raise problem(
                error,
                Location(source=str(file), line=number),
                hint=_("tuner schema runs prints what such a line holds"),
            ) from None
    if not runs:
        raise InputError(_("the file is empty"), location=Location(source=str(file)))
    name, count = Counter(run.id for run in runs).most_common(1)[0]
    if count > 1:
        raise InputError(_("two lines have the same id"), location=Location(source=str(file)), key=name)
    return tuple(runs)
