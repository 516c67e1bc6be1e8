"""The machine-readable comparison: structs, published as a JSON Schema."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from tuner import __version__, timing
from tuner.advise import Verdict
from tuner.advise.comparison import Difference, Effect
from tuner.consultation.comparison import ConfigurationDiff, KeyEntry, PhaseChange, Side
from tuner.errors import Location
from tuner.evidence import Evidence
from tuner.field_marks import Bytes, BytesInterval
from tuner.findings import Finding, Severity
from tuner.inputs.settings import Layer
from tuner.memory import Item, PhaseEstimate
from tuner.render.field_words import field_words, value_words
from tuner.render.json_text import json_text
from tuner.render.report_values import SCHEMA_VERSION, SchemaVersion
from tuner.render.time_report import StepTimeReport
from tuner.trainers.chosen import TRAINER
from tuner.trainers.protocol import KeyFate, KeyKind, KeyState
from tuner.workload import Phase

SecondsInterval = Annotated[tuple[float, float], Meta(description="the least and the most seconds")]


class SideReport(Struct, frozen=True, kw_only=True):
    """One side of a comparison: a configuration, and what the model says of it."""

    source: str
    words: Annotated[tuple[str, ...], Meta(description="overrides, arguments and variables behind it")]
    trainer: str
    release: str
    release_reason: str
    engine: Annotated[str | None, Meta(description="the rollout engine with its version")]
    model: str
    gpus: str
    verdict: Verdict
    memory_verdict: Annotated[Verdict, Meta(description="of memory alone, for the job that starts")]
    refusals: Annotated[tuple[str, ...], Meta(description="codes of the checks that end the launch")]
    worst_phase: Phase
    worst_bytes: Bytes
    interval_bytes: BytesInterval
    capacity_bytes: Bytes
    host_bytes: Annotated[int, Meta(description="bytes of host memory per node")]
    seconds: Annotated[float, Meta(description="of one step, modelled")]
    step_time: StepTimeReport
    left_out: Annotated[tuple[str, ...], Meta(description="parts of the job that are not counted")]


class PartChange(Struct, frozen=True, kw_only=True):
    """One part of a phase's peak."""

    item: Item
    before_bytes: Bytes
    after_bytes: Bytes
    change_bytes: Bytes


class PhaseDiffReport(Struct, frozen=True, kw_only=True):
    """One phase before and after; the parts add up to the peaks."""

    phase: Phase
    before_bytes: Annotated[int | None, Meta(description="bytes at the peak; null without the phase")]
    after_bytes: Annotated[int | None, Meta(description="bytes at the peak; null without the phase")]
    change_bytes: Bytes
    parts: tuple[PartChange, ...]
    before_seconds: float | None
    after_seconds: float | None
    change_seconds: float
    before_interval_s: SecondsInterval | None
    after_interval_s: SecondsInterval | None
    change: Annotated[
        timing.StepChange | None,
        Meta(description="of the seconds; null where one of both is missing"),
    ]


class PhaseEffectReport(Struct, frozen=True, kw_only=True):
    """A phase of the second job without a difference, and with it."""

    phase: Phase
    without_bytes: Bytes
    with_bytes: Bytes


class EffectReport(Struct, frozen=True, kw_only=True):
    """What one difference does to the second job."""

    phases: Annotated[tuple[PhaseEffectReport, ...], Meta(description="those whose peak changes")]
    without_host_bytes: Bytes
    with_host_bytes: Bytes
    without_seconds: float
    with_seconds: float
    change: Annotated[timing.StepChange, Meta(description="of the seconds, with its interval")]


class FieldReport(Struct, frozen=True, kw_only=True):
    """A field of the workload that differs, as the report of advise has it."""

    path: str
    words: str
    before: str
    after: str


class DifferenceReport(Struct, frozen=True, kw_only=True):
    """Fields that differ for one reason, and what that does to the second job."""

    fields: tuple[FieldReport, ...]
    overrides: Annotated[
        tuple[str, ...], Meta(description="give the second job the first one's values; empty: no key does")
    ]
    effect: Annotated[EffectReport | None, Meta(description="null where the two values make no job together")]


class KeyStateReport(Struct, frozen=True, kw_only=True):
    """A key in one of both configurations."""

    key: str
    known: Annotated[bool, Meta(description="the configuration has the key")]
    value: Any
    by_user: bool
    layer: Layer | None
    location: Location | None
    kind: Annotated[KeyKind | None, Meta(description="what the estimate makes of it")]


class KeyReport(Struct, frozen=True, kw_only=True):
    """A key that differs and touches one of both jobs."""

    change: KeyFate
    before: KeyStateReport
    after: KeyStateReport
    reason: Annotated[str, Meta(description="why it has no effect, or what is not counted")]
    differences: tuple[DifferenceReport, ...]


class SpokenReport(Struct, frozen=True, kw_only=True):
    """An error or a warning of one configuration alone."""

    code: str
    name: str
    severity: Severity
    evidence: Evidence
    message: str
    keys: tuple[str, ...]


class ComparisonReport(Struct, frozen=True, kw_only=True):
    """Everything that ``tuner diff`` found out about two configurations."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    before: SideReport
    after: SideReport
    worse: Annotated[bool, Meta(description="the second no longer starts or fits as the first one does")]
    phases: tuple[PhaseDiffReport, ...]
    change_seconds: Annotated[float, Meta(description="of one step, modelled")]
    change: Annotated[timing.StepChange, Meta(description="of the seconds, with its interval")]
    change_host_bytes: Bytes
    keys: Annotated[tuple[KeyReport, ...], Meta(description="the most telling first")]
    passed_over: Annotated[int, Meta(description="further keys that differ and touch neither job")]
    behaviours: Annotated[
        tuple[DifferenceReport, ...], Meta(description="what differs without a key that shows it")
    ]
    findings_before: Annotated[tuple[SpokenReport, ...], Meta(description="of the first alone")]
    findings_after: Annotated[tuple[SpokenReport, ...], Meta(description="of the second alone")]


def comparison_json(comparison: ConfigurationDiff) -> str:
    """The comparison as JSON."""
    return json_text(comparison_report(comparison))


def comparison_report(comparison: ConfigurationDiff) -> ComparisonReport:
    """The whole comparison."""
    before, after = comparison.before, comparison.after
    return ComparisonReport(
        tuner_version=__version__,
        before=_side(before),
        after=_side(after),
        worse=comparison.is_worse,
        phases=tuple(map(_phase, comparison.phases)),
        change_seconds=after.job.case.time.seconds - before.job.case.time.seconds,
        change=comparison.change,
        change_host_bytes=after.job.case.estimate.host_bytes - before.job.case.estimate.host_bytes,
        keys=tuple(map(_key, comparison.keys)),
        passed_over=comparison.passed_over,
        behaviours=tuple(map(_difference, comparison.behaviours)),
        findings_before=tuple(map(_finding, comparison.silent)),
        findings_after=tuple(map(_finding, comparison.spoken)),
    )


def _side(side: Side) -> SideReport:
    job = side.job
    estimate = job.case.estimate
    return SideReport(
        source=side.given.source,
        words=side.words,
        trainer=TRAINER.name,
        release=side.loaded.version,
        release_reason=side.release_reason,
        engine=side.rollout_engine,
        model=side.model,
        gpus=side.gpus,
        verdict=job.verdict,
        memory_verdict=job.memory_verdict,
        refusals=tuple(dict.fromkeys(refusal.finding.rule.code for refusal in job.refusals)),
        worst_phase=estimate.worst.phase,
        worst_bytes=estimate.worst.peak_bytes,
        interval_bytes=estimate.worst.interval,
        capacity_bytes=estimate.capacity_bytes,
        host_bytes=estimate.host_bytes,
        seconds=job.case.time.seconds,
        step_time=StepTimeReport.of(job.case.step, job.case.workload.batch),
        left_out=tuple(part.name for part in side.left_out),
    )


def _phase(phase: PhaseChange) -> PhaseDiffReport:
    before, after = phase.before, phase.after
    return PhaseDiffReport(
        phase=phase.phase,
        before_bytes=None if before is None else before.peak_bytes,
        after_bytes=None if after is None else after.peak_bytes,
        change_bytes=phase.after_bytes - phase.before_bytes,
        parts=tuple(
            PartChange(item=item, before_bytes=one, after_bytes=other, change_bytes=other - one)
            for item in Item
            for one, other in [(_part(before, item), _part(after, item))]
            if one or other
        ),
        before_seconds=phase.before_seconds,
        after_seconds=phase.after_seconds,
        change_seconds=(phase.after_seconds or 0.0) - (phase.before_seconds or 0.0),
        before_interval_s=_ends(phase.before_time),
        after_interval_s=_ends(phase.after_time),
        change=phase.change,
    )


def _ends(time: timing.Interval | None) -> tuple[float, float] | None:
    return None if time is None else (time.low_s, time.high_s)


def _part(estimate: PhaseEstimate | None, item: Item) -> int:
    return 0 if estimate is None else estimate.bytes_of(item)


def _key(entry: KeyEntry) -> KeyReport:
    return KeyReport(
        change=entry.change.change,
        before=_state(entry.change.before),
        after=_state(entry.change.after),
        reason=entry.change.reason,
        differences=tuple(map(_difference, entry.differences)),
    )


def _state(state: KeyState) -> KeyStateReport:
    origin = state.origin
    return KeyStateReport(
        key=state.key,
        known=origin is not None,
        value=state.shown,
        by_user=state.by_user,
        layer=None if origin is None else origin.layer,
        location=None if origin is None else origin.location,
        kind=state.kind,
    )


def _difference(difference: Difference) -> DifferenceReport:
    return DifferenceReport(
        fields=tuple(
            FieldReport(
                path=".".join(field.path),
                words=field_words(field.path),
                before=value_words(field.path, field.before),
                after=value_words(field.path, field.after),
            )
            for field in difference.fields
        ),
        overrides=difference.overrides,
        effect=None if difference.effect is None else _effect(difference.effect),
    )


def _effect(effect: Effect) -> EffectReport:
    return EffectReport(
        phases=tuple(
            PhaseEffectReport(
                phase=phase.phase, without_bytes=phase.without_bytes, with_bytes=phase.with_bytes
            )
            for phase in effect.phases
        ),
        without_host_bytes=effect.without_host_bytes,
        with_host_bytes=effect.with_host_bytes,
        without_seconds=effect.without_seconds,
        with_seconds=effect.with_seconds,
        change=effect.change,
    )


def _finding(finding: Finding) -> SpokenReport:
    return SpokenReport(
        code=finding.rule.code,
        name=finding.rule.name,
        severity=finding.severity,
        evidence=finding.evidence,
        message=finding.message,
        keys=finding.keys,
    )
