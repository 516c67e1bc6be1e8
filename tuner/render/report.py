"""The machine-readable answer: pydantic models, published as a JSON Schema.

Bytes are whole numbers, times are seconds, places are 1-based. ``schema_version`` changes its first
number when a field is removed, changes its meaning or may be null where it could not, its second when one
is added.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tuner.advise import CheapestRun, Price, Verdict, Without
from tuner.advise.allocation import Standing
from tuner.evidence import Evidence
from tuner.findings import Goal, Numerics, Severity
from tuner.inputs.settings import Layer
from tuner.memory import Item, RolloutMemory, Term
from tuner.memory.derivations import Symbol
from tuner.memory.failed_allocation.explanation import Confidence
from tuner.memory.fitting.limits import Fitting
from tuner.render.batches import BatchRow
from tuner.render.head_table import HeadRow, HeadSizes, TokenRow
from tuner.render.observed_report import LogReport
from tuner.render.struct_models import STRUCTS
from tuner.timing import Change
from tuner.timing import Interval as TimeInterval
from tuner.trainers.protocol import Affects
from tuner.workload import Batch, Phase, Workload

SchemaVersion = Literal["4.1"]
SCHEMA_VERSION: SchemaVersion = "4.1"

Bytes = Annotated[int, Field(description="bytes")]
Interval = Annotated[tuple[int, int], Field(description="the least and the most bytes")]
Seconds = Annotated[float, Field(description="seconds, modelled")]
LowSeconds = Annotated[float, Field(description="the least seconds")]
HighSeconds = Annotated[float, Field(description="the most seconds")]
RatesOf = Annotated[str, Field(description="the card whose measured rates or tables the seconds rest on")]


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


class OpenValue(_Model):
    """An argument of a launch script that only a run of it would tell; it was left out."""

    key: Annotated[str, Field(description="empty where not even the key is known")]
    text: Annotated[str, Field(description="as the script has it")]
    variable: Annotated[str, Field(description="NAME=value behind the script settles it; empty: none does")]
    location: Place


class ScriptRemark(_Model):
    """Something that was taken to be so when a launch script was followed."""

    text: str
    location: Place


class LeftOutReport(_Model):
    """A part of the job that the estimate does not count, and the setting by which the job has it."""

    name: Annotated[str, Field(description='completes "the job fits, without ..."')]
    key: str
    value: Any
    location: Place | None
    reason: str
    affects: Annotated[Affects, Field(description="what is missing from the answer")]


class ProjectSetting(_Model):
    """What the settings of a project say in place of an option."""

    option: str
    value: Any
    location: Place


class Premises(_Model):
    """What the answer rests on, and why."""

    source: str
    trainer: str
    release: str
    release_reason: str
    engine: Annotated[
        str | None, Field(description="the rollout engine with its version; null for transformers")
    ] = None
    engine_reason: str | None = None
    model_reason: str
    model_named_in: Annotated[
        str | None,
        Field(description="a longer name that contains the model's; null where the model is named itself"),
    ] = None
    parameters: int
    active_parameters: int
    critic_parameters: int | None
    gpu_reason: str
    gpu_assumed: bool
    gpus_reason: str
    headroom: Annotated[float, Field(description="share of the card that proposals leave free")]
    settings: tuple[UserSetting, ...]
    project_settings: Annotated[
        tuple[ProjectSetting, ...], Field(description="options that the settings of the project give")
    ] = ()
    resting_on_defaults: Annotated[
        dict[str, Any], Field(description="decisive keys that nobody set, with the defaults used")
    ]
    fitting_values: Annotated[
        dict[str, Fitting],
        STRUCTS,
        Field(description="of these keys: the values with which every phase fits"),
    ] = {}
    unknown_keys: tuple[Unknown, ...]
    open_values: tuple[OpenValue, ...] = ()
    lost_overrides: Annotated[
        tuple[ScriptRemark, ...], Field(description="of a launch script: these never reach the trainer")
    ] = ()
    script_remarks: tuple[ScriptRemark, ...] = ()


class TermReport(_Model):
    """One addend of a moment."""

    item: Item
    name: str
    bytes: Bytes
    interval_bytes: Interval
    evidence: Evidence
    formula: Annotated[str, Field(description="in the names of symbols; neighbours are multiplied")]
    symbols: Annotated[dict[str, int | float], Field(description="numbers by their names in the formula")]
    source: Annotated[str, Field(description="the function whose text derives the formula")]

    @classmethod
    def of(cls, term: Term) -> "TermReport":
        """A term as it is."""
        return cls(
            item=term.item,
            name=term.name,
            bytes=term.bytes,
            interval_bytes=(term.low, term.high),
            evidence=term.evidence,
            formula=term.formula,
            symbols=dict(term.symbols),
            source=term.source,
        )


class PartReport(_Model):
    """An addend of a number that is itself a sum."""

    name: str
    number: int
    formula: str
    source: str


class SymbolReport(_Model):
    """A symbol of the formulas with one of the numbers it stands for."""

    name: str
    number: int | float
    meaning: str
    formula: Annotated[str, Field(description="what the number was computed from; empty where it is given")]
    symbols: Annotated[dict[str, int], Field(description="numbers by their names in the formula")]
    parts: tuple[PartReport, ...]

    @classmethod
    def of(cls, symbol: Symbol) -> "SymbolReport":
        """A symbol as it is."""
        derived = symbol.derivation
        return cls(
            name=symbol.name,
            number=symbol.number,
            meaning=symbol.meaning,
            formula="" if derived is None else derived.formula,
            symbols={} if derived is None else dict(derived.symbols),
            parts=tuple(
                PartReport(
                    name=part.name,
                    number=part.derivation.value,
                    formula=part.derivation.formula,
                    source=part.source,
                )
                for part in symbol.parts
            ),
        )


class MomentReport(_Model):
    """An instant within a phase."""

    name: str
    bytes: Bytes
    terms: tuple[TermReport, ...]


class PhaseReport(_Model):
    """One phase of the step."""

    phase: Phase
    peak_bytes: Bytes
    interval_bytes: Annotated[tuple[int, int], Field(description="the least and the most bytes of the peak")]
    allocated_bytes: Annotated[int, Field(description="bytes at the peak of the trainer's own allocator")]
    reserved_interval_bytes: Annotated[
        tuple[int, int],
        Field(description="the least and the most bytes that the trainer's own allocator keeps from others"),
    ]
    peak_moment: str
    moments: tuple[MomentReport, ...]
    seconds: Seconds | None


class MemoryReport(_Model):
    """The memory of one GPU through one step."""

    capacity_bytes: Bytes
    worst_phase: Phase
    host_bytes: Annotated[int, Field(description="bytes of host memory per node")]
    host_interval_bytes: Annotated[
        Interval | None, Field(description="the least and the most bytes of host memory per node")
    ] = None
    host_terms: Annotated[tuple[TermReport, ...], Field(description="what the host memory adds up from")] = ()
    host_capacity_bytes: Annotated[
        int | None, Field(description="bytes of host memory that a node has; null where nobody said")
    ]
    problems: tuple[str, ...]
    doubts: Annotated[
        tuple[str, ...], Field(description="why the job may not run although every phase fits")
    ] = ()
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
    low_s: LowSeconds
    high_s: HighSeconds
    evidence: Annotated[Evidence, Field(description="what most of the seconds rest on")]
    rates_of: RatesOf


class SavingTimeReport(_Model):
    """What a checkpoint takes each time that one is written; it is no part of the step's seconds."""

    waits: Annotated[PhaseTimeReport, Field(description="in which training stands still")]
    background_s: Annotated[Seconds, Field(description="in which files are written while training goes on")]
    written_bytes: Annotated[int, Field(description="of all ranks, every model that is saved")]
    storage_bytes_per_s: Annotated[float, Field(description="what a node writes")]
    storage_assumed: Annotated[bool, Field(description="nobody said how fast the storage is")]
    every_steps: Annotated[int | None, Field(description="null: at the end of the job alone")]
    step_seconds: Annotated[
        float | None, Field(description="spread over the steps from one checkpoint to the next")
    ]


class StepTimeReport(_Model):
    """The time of the whole step."""

    seconds: Seconds
    low_s: LowSeconds
    high_s: HighSeconds
    evidence: Annotated[Evidence, Field(description="what most of the seconds rest on")]
    rates_of: RatesOf
    lengths_assumed: Annotated[
        bool,
        Field(description="nobody said how long responses are; the interval does not count that"),
    ]

    @classmethod
    def of(cls, interval: TimeInterval, batch: Batch) -> "StepTimeReport":
        """The interval of a step's seconds, at the lengths of a job."""
        return cls(
            seconds=interval.seconds,
            low_s=interval.low_s,
            high_s=interval.high_s,
            evidence=interval.evidence,
            rates_of=interval.rates_of,
            lengths_assumed=batch.known_mean_tokens is None,
        )


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
    price: Annotated[Price | None, STRUCTS]
    refuses: Annotated[bool, Field(description="the launch ends for this reason, whatever memory there is")]
    yours: Annotated[
        bool, Field(description="for the user to decide: it changes the training, or makes the job worse")
    ]
    conflicts: tuple[str, ...]


class ContributionReport(_Model):
    """What one finding puts into the combination, and what the job would be with everything else."""

    code: str
    name: str
    message: str
    overrides: tuple[str, ...]
    without: Annotated[
        Without | None, STRUCTS, Field(description="null where it mends an error, or the others rest on it")
    ]


class CombinationReport(_Model):
    """All accepted advice together, as the trainer reads it from the overrides."""

    rules: tuple[str, ...]
    overrides: tuple[str, ...]
    contributions: tuple[ContributionReport, ...]
    verdict: Verdict
    fits: bool
    worst_phase: Phase
    worst_bytes: Bytes
    memory: MemoryReport
    seconds: Seconds
    step_time: StepTimeReport
    change: Annotated[
        Change | None,
        STRUCTS,
        Field(description="from the seconds of the cheapest form that runs; null where none does"),
    ] = None


class ConsideredReport(_Model):
    """One way in which the job may run, since what its release does is not known."""

    name: str
    worst_phase: Phase
    worst_bytes: Bytes
    interval_bytes: Interval
    fits: bool
    fits_for_certain: bool


class ReleaseReport(_Model):
    """A release that is not bundled, and the job under every behaviour that it may have."""

    release: str
    considered: Annotated[
        tuple[ConsideredReport, ...], Field(description="first the one that the answer rests on")
    ]
    mean_tokens: Annotated[
        int | None,
        Field(description="mean tokens per sequence that fit with each; null where no length does"),
    ]
    certain_tokens: Annotated[
        int | None, Field(description="the same, with the high end of every phase's interval")
    ]


class CandidateReport(_Model):
    """A tensor that has the size of a failed allocation."""

    name: str
    what: str
    made_by: str
    item: Item
    phases: tuple[Phase, ...]
    formula: Annotated[str, Field(description="the product with its numbers")]
    confidence: Confidence
    tokens: Annotated[int | None, Field(description="tokens that give the size; null without tokens")]
    low_tokens: int | None
    high_tokens: int | None
    full_tokens: Annotated[int | None, Field(description="tokens of a full micro-batch; 0 where unknown")]
    advice: Annotated[tuple[str, ...], Field(description="rules whose advice makes it smaller")]


class AllocationReport(_Model):
    """A failed allocation and what it can have been, the likeliest first."""

    text: str
    low_bytes: Bytes
    high_bytes: Bytes
    free_bytes: Annotated[int | None, Field(description="bytes free on the card, where the line says so")]
    unused_bytes: Annotated[int | None, Field(description="bytes that PyTorch had reserved but not used")]
    candidates: tuple[CandidateReport, ...]
    standing: Annotated[
        Standing | None, STRUCTS, Field(description="what the model says of it; null without a job")
    ] = None


class Report(_Model):
    """Everything that ``tuner advise`` found out about one configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="tuner report")

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    premises: Premises
    workload: Annotated[Workload, STRUCTS]
    verdict: Verdict
    memory_verdict: Annotated[
        Verdict, Field(description="of memory alone, for the job with the least change that starts")
    ]
    cheapest_run: Annotated[
        CheapestRun | None,
        STRUCTS,
        Field(description="what seconds are compared with; null where no form of the job is known to run"),
    ]
    mean_tokens: Annotated[
        int | None, Field(description="mean tokens per sequence that still fit; null where no length does")
    ]
    left_out: Annotated[
        tuple[LeftOutReport, ...], Field(description="parts of the job that verdict and seconds do not count")
    ] = ()
    batches: Annotated[
        tuple[BatchRow, ...],
        STRUCTS,
        Field(description="the batch sizes of every pass, as sequences and micro-batches of one rank"),
    ] = ()
    memory: MemoryReport
    rollout: Annotated[
        Annotated[RolloutMemory, STRUCTS] | None, Field(description="null where nothing is generated")
    ]
    time: tuple[PhaseTimeReport, ...]
    step_time: StepTimeReport
    saving: Annotated[SavingTimeReport | None, Field(description="null of a job that writes no checkpoint")]
    findings: tuple[FindingReport, ...]
    combination: CombinationReport | None
    symbols: Annotated[
        tuple[SymbolReport, ...],
        Field(description="what the symbols of the formulas stand for"),
    ]
    failed_allocation: AllocationReport | None = None
    release_range: Annotated[ReleaseReport | None, Field(description="null where the release is bundled")] = (
        None
    )
    log: Annotated[LogReport | None, Field(description="null where the input is no log of a run")] = None


class HeadReport(_Model):
    """What ``tuner estimate-memory`` computes."""

    model_config = ConfigDict(extra="forbid", frozen=True, title="tuner estimate-memory report")

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    sizes: Annotated[HeadSizes, STRUCTS]
    heads: Annotated[tuple[HeadRow, ...], STRUCTS]
    published_rule_bytes: Annotated[int, Field(description="7 bytes per token and vocabulary entry")]
    model: str | None
    tokens: Annotated[tuple[TokenRow, ...], STRUCTS]
    failed_allocation: AllocationReport | None = None
