"""A bundle: one file with the settings of a run, what was measured and what was predicted, to be sent on.

It holds nothing that names a person, a machine or a folder; what the settings had of such is left out.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from tuner.errors import InputError, Location, cut
from tuner.files import is_there, read_bytes
from tuner.language import _
from tuner.units import MIB

SUFFIX = ".json"
_MOST_BYTES = 64 * MIB
_BEGIN = re.compile(rb'\s*\{\s*"tuner_bundle"\s*:')
_LOOKED_AT = 256  # bytes


class PredictedPhase(Struct, frozen=True, kw_only=True):
    """What the release of tuner that wrote a bundle predicted of one phase, or of the whole step."""

    phase: Annotated[str, Meta(description="a phase's name, or step")]
    seconds: Annotated[float | None, Meta(description="seconds; null where they are not modelled")] = None
    low_s: Annotated[float | None, Meta(description="ends of the predicted interval")] = None
    high_s: float | None = None
    allocated_bytes: Annotated[
        int | None, Meta(description="bytes that PyTorch's allocator hands out at most; null for the step")
    ] = None
    allocated_high_bytes: Annotated[
        int | None, Meta(description="bytes, with the upper end of every term")
    ] = None


class BundledStep(Struct, frozen=True, kw_only=True):
    """The metrics of one step, as the trainer logged them."""

    step: int
    metrics: dict[str, float]


class Bundle(Struct, frozen=True, kw_only=True):
    """Settings, measurements and prediction of one run, in one file."""

    tuner_bundle: Annotated[Literal[1], Meta(description="version of this format")] = 1
    tuner_version: Annotated[str, Meta(description="that wrote it")]
    trainer: str
    program: Annotated[str, Meta(description="the trainer's module that was started; empty: its usual one")]
    overrides: Annotated[
        tuple[str, ...], Meta(description="the settings that are not the release's own, as key=value")
    ]
    premises: Annotated[
        dict[str, str | int | float],
        Meta(description="release, card, their number and lengths, by the names of the options"),
    ]
    models: Annotated[
        dict[str, dict[str, Any]],
        Meta(description="dimensions of models that are not bundled, as in config.json, by their names here"),
    ]
    software: Annotated[dict[str, str], Meta(description="releases of packages, by name")]
    record: Annotated[
        tuple[dict[str, Any], ...], Meta(description="lines of the record, without names of nodes")
    ]
    steps: Annotated[tuple[BundledStep, ...], Meta(description="of a log, where there is no record")]
    predicted: tuple[PredictedPhase, ...]
    hidden: Annotated[
        tuple[str, ...], Meta(description="what was left out: keys of the release, and kinds of other things")
    ]


def is_bundle(file: Path) -> bool:
    """Whether a file is a bundle, by its name's end and its beginning."""
    if file.suffix != SUFFIX or not is_there(file, Path.is_file):
        return False
    try:
        with file.open("rb") as stream:
            return _BEGIN.match(stream.read(_LOOKED_AT)) is not None
    except OSError:
        return False


def read_bundle(file: Path) -> Bundle:
    """The content of a bundle.

    Raises:
        InputError: it cannot be read, or is none.
    """
    try:
        return msgspec.json.decode(read_bytes(file, most=_MOST_BYTES), type=Bundle)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InputError(
            _("is no bundle: {reason}").format(reason=cut(str(error))),
            location=Location(source=str(file)),
            hint=_("tuner schema bundle prints what one holds; write it with tuner bundle"),
        ) from None
