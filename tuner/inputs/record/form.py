"""The lines of a record, as they are written and read: one JSON object a line, its kind under ``line``.

Every process of a job writes a file of its own, whose first line tells what it holds. A job that is started
again goes on in the same files, with a first line of its own.

A record may also be put into one file, to keep or to hand on: first the run, then its configuration, then the
lines of every process, each behind its own first line, and what was seen of the cards.
"""

from typing import Annotated, Any

from msgspec import Meta, Struct

from tuner.units import LARGEST
from tuner.workload.step import Phase

VERSION = 1  # of the format; a reader refuses a later one
SUFFIX = ".jsonl"
CONFIG = "config.yaml"  # the trainer's resolved configuration, without secrets
WORKER_CONFIG = "worker-config.yaml"  # what a worker knows of it, where the trainer's process records nothing
TRAINER = "trainer"  # the role of the process that starts the steps
FIRST_LINE = b'{"line":"process"'  # begins every file of a record
FIRST_OF_ONE_FILE = b'{"line":"run"'  # begins a record in one file

Bytes = Annotated[int, Meta(ge=0, le=1 << 60)]
Count = Annotated[int, Meta(ge=0, le=1 << 60)]
Seconds = Annotated[float, Meta(ge=0, le=LARGEST)]
Name = Annotated[str, Meta(max_length=200)]


class RecordProcess(Struct, frozen=True, kw_only=True, tag_field="line", tag="process"):
    """The process that writes the lines behind this one."""

    version: Annotated[Count, Meta(description="of this format")]
    role: Annotated[
        Name, Meta(description="trainer, or what verl calls the worker, such as actor_rollout or critic")
    ]
    rank: Annotated[Count, Meta(description="among the workers of its role; 0 of the trainer")]
    world: Annotated[Count, Meta(description="how many workers the role has")]
    gpus_per_node: Annotated[Count | None, Meta(description="of these workers on one node")] = None
    host: Annotated[Name, Meta(description="name of the node")]
    pid: Annotated[Count, Meta(description="number of the process on its node")]
    begun: Annotated[Seconds, Meta(description="when, in seconds since 1970")]
    verl: Annotated[Name | None, Meta(description="its release")] = None
    torch: Annotated[Name | None, Meta(description="its release")] = None
    tuner: Annotated[Name, Meta(description="its release")]
    gpu: Annotated[Name | None, Meta(description="name of the card, as CUDA has it")] = None
    gpu_bytes: Annotated[Bytes | None, Meta(description="memory of the card")] = None


class Begin(Struct, frozen=True, kw_only=True, tag_field="line", tag="begin"):
    """A phase that has begun, so that a live view, or who looks for where a job stopped, sees it."""

    step: Annotated[Count, Meta(description="of the trainer's count; 0 before the first")]
    phase: Annotated[Phase, Meta(description="as advise names it")]
    begun: Annotated[Seconds, Meta(description="when, in seconds since 1970")]


class Ended(Struct, frozen=True, kw_only=True, tag_field="line", tag="phase"):
    """A phase that has ended; memory is null where there is no CUDA device."""

    step: Annotated[Count, Meta(description="of the trainer's count; 0 before the first")]
    phase: Annotated[Phase, Meta(description="as advise names it")]
    begun: Annotated[Seconds, Meta(description="when, in seconds since 1970")]
    seconds: Annotated[Seconds, Meta(description="until all of its kernels had ended")]
    sequences: Annotated[Count | None, Meta(description="that this rank was given")] = None
    tokens: Annotated[Count | None, Meta(description="of these, without padding")] = None
    response_tokens: Annotated[Count | None, Meta(description="of these, of responses")] = None
    allocated_bytes: Annotated[
        Bytes | None, Meta(description="peak of what PyTorch's allocator had handed out in the phase")
    ] = None
    reserved_bytes: Annotated[
        Bytes | None, Meta(description="peak of what it had taken of the card in the phase")
    ] = None
    process_bytes: Annotated[
        Bytes | None,
        Meta(description="of the card held by this process at its end, as NVML tells; else null"),
    ] = None
    card_bytes: Annotated[
        Bytes | None,
        Meta(description="of the card held by all processes, at its begin or its end, whichever is more"),
    ] = None
    failed: Annotated[Name | None, Meta(description="name of the exception that ended it")] = None


class Step(Struct, frozen=True, kw_only=True, tag_field="line", tag="step"):
    """The metrics of a step, as the trainer logs them."""

    step: Annotated[Count, Meta(description="of the trainer's count")]
    metrics: Annotated[dict[str, float], Meta(description="by verl's names; finite numbers alone")]


Line = RecordProcess | Begin | Ended | Step


class RecordedRun(Struct, frozen=True, kw_only=True, tag_field="line", tag="run"):
    """The run of which a file holds the whole record; the first line of such a file."""

    version: Annotated[Count, Meta(description="of this format")]
    name: Annotated[Name, Meta(description="that tells it from other runs")]
    tuner: Annotated[Name, Meta(description="release that wrote it")]
    date: Annotated[Name | None, Meta(description="when it ran, such as 2026-11-28")] = None
    cards: Annotated[tuple[Name, ...], Meta(description="each GPU, as nvidia-smi names it")] = ()
    software: Annotated[dict[str, Name], Meta(description="releases of packages, by name")] = {}
    overrides: Annotated[tuple[str, ...], Meta(description="that it was started with")] = ()
    models: Annotated[
        dict[str, dict[str, Any]],
        Meta(description="config.json of models that are not bundled, by their paths in the configuration"),
    ] = {}
    notes: Annotated[tuple[str, ...], Meta(description="what else there is to say of it")] = ()


class RecordedConfiguration(Struct, frozen=True, kw_only=True, tag_field="line", tag="configuration"):
    """The configuration of the run, as the file beside a record has it."""

    yaml: Annotated[str, Meta(description="the text of that file, without secrets")]


class CardPeak(Struct, frozen=True, kw_only=True, tag_field="line", tag="card"):
    """What all processes held of each card at most while a phase ran, by readings of its driver."""

    step: Annotated[Count, Meta(description="of the trainer's count")]
    phase: Annotated[Phase, Meta(description="as advise names it")]
    used_bytes: Annotated[tuple[Bytes, ...], Meta(description="of each card of the node, in its order")]
    busy_seconds: Annotated[
        tuple[Seconds, ...],
        Meta(description="of each card: from the phase's begin to the last reading in which it computed"),
    ] = ()


OneFileLine = RecordedRun | RecordedConfiguration | CardPeak | RecordProcess | Begin | Ended | Step
