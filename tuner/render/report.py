"""The machine-readable answer: pydantic models, published as a JSON Schema.

Bytes are whole numbers, times are seconds, places are 1-based. ``schema_version`` changes its first
number when a field is removed or changes its meaning, its second when one is added.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.advise import Price, Verdict
from tuner.evidence import Evidence
from tuner.findings import Goal, Numerics, Severity
from tuner.inputs.settings import Layer
from tuner.memory import Item, RolloutMemory
from tuner.render.head_table import HeadRow, HeadSizes, TokenRow
from tuner.workload import Phase, Workload

SCHEMA_VERSION: Literal["1.0"] = "1.0"

Bytes = Annotated[int, Field(description="bytes")]
Seconds = Annotated[float, Field(description="seconds, modelled")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Place(_Model):
    """A place in the user's input."""

    source: str
    line: int | None
    column: int | None


class UserSetting(_Model):
    """A key that the user set, in a file or as an override."""

    key: str
    value: Any
    layer: Layer
    location: Place | None
    text: str


class Unknown(_Model):
    """A key that the release does not have; it was not taken into account."""

    key: str
    nearest: str | None
    known_in: Annotated[tuple[str, ...], Field(description="bundled releases that have this key")]
    location: Place


class Premises(_Model):
    """What the answer rests on, and why."""

    source: str
    trainer: str
    release: str
    release_reason: str
    model_reason: str
    parameters: int
    active_parameters: int
    critic_parameters: int | None
    gpu_reason: str
    gpu_assumed: bool
    gpus_reason: str
    headroom: Annotated[float, Field(description="share of the card that proposals leave free")]
    settings: tuple[UserSetting, ...]
    resting_on_defaults: Annotated[
        dict[str, Any], Field(description="decisive keys that nobody set, with the defaults used")
    ]
    unknown_keys: tuple[Unknown, ...]


class TermReport(_Model):
    """One addend of a moment."""

    item: Item
    name: str
    bytes: Bytes
    evidence: Evidence
    formula: str


class MomentReport(_Model):
    """An instant within a phase."""

    name: str
    bytes: Bytes
    terms: tuple[TermReport, ...]


class PhaseReport(_Model):
    """One phase of the step."""

    phase: Phase
    peak_bytes: Bytes
    allocated_bytes: Annotated[int, Field(description="bytes at the peak of the trainer's own allocator")]
    peak_moment: str
    moments: tuple[MomentReport, ...]
    seconds: Seconds | None


class MemoryReport(_Model):
    """The memory of one GPU through one step."""

    capacity_bytes: Bytes
    worst_phase: Phase
    host_bytes: Annotated[int, Field(description="bytes of host memory per node")]
    problems: tuple[str, ...]
    phases: tuple[PhaseReport, ...]


class TimePart(_Model):
    """What some of a phase's seconds are spent on."""

    name: str
    seconds: Seconds


class PhaseTimeReport(_Model):
    """The time of one phase."""

    phase: Phase
    seconds: Seconds
    parts: tuple[TimePart, ...]


class FindingReport(_Model):
    """One piece of advice, in the order of its rank."""

    code: str
    name: str
    severity: Severity
    goal: Goal
    numerics: Numerics
    evidence: Evidence
    phase: Phase | None
    message: str
    notes: tuple[str, ...]
    keys: tuple[str, ...]
    location: Place | None
    overrides: tuple[str, ...]
    price: Price | None
    conflicts: tuple[str, ...]


class CombinationReport(_Model):
    """All accepted advice together."""

    rules: tuple[str, ...]
    overrides: tuple[str, ...]
    fits: bool
    worst_phase: Phase
    worst_bytes: Bytes
    memory: MemoryReport
    seconds: Seconds


class Report(_Model):
    """Everything that ``tuner advise`` found out about one configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="tuner report")

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    tuner_version: str
    premises: Premises
    workload: Workload
    verdict: Verdict
    mean_tokens: Annotated[
        int | None, Field(description="mean tokens per sequence that still fit; null where no length does")
    ]
    memory: MemoryReport
    rollout: RolloutMemory
    time: tuple[PhaseTimeReport, ...]
    findings: tuple[FindingReport, ...]
    combination: CombinationReport | None


class CheckLine(_Model):
    """One finding of ``tuner check``."""

    path: str
    line: int
    column: int
    severity: Severity
    code: str
    name: str
    message: str
    evidence: Evidence
    overrides: tuple[str, ...]


class CheckReport(_Model):
    """What ``tuner check`` found in all files together, worst first within a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="tuner check report")

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    tuner_version: str
    findings: tuple[CheckLine, ...]
    unreadable: Annotated[tuple[str, ...], Field(description="messages on files that cannot be used")]


class HeadReport(_Model):
    """What ``tuner estimate-memory`` computes."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="tuner estimate-memory report")

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    tuner_version: str
    sizes: HeadSizes
    heads: tuple[HeadRow, ...]
    published_rule_bytes: Annotated[int, Field(description="7 bytes per token and vocabulary entry")]
    model: str | None
    tokens: tuple[TokenRow, ...]
