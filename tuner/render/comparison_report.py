"""The machine-readable comparison: structs, published as a JSON Schema."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from tuner import __version__, timing
from tuner.advise import Verdict
from tuner.advise.comparison import Difference, Effect, PhaseEffect
from tuner.consultation.comparison import ConfigurationDiff, KeyEntry, PhaseChange, Side
from tuner.errors import Location
from tuner.field_marks import Bytes, BytesInterval
from tuner.findings import Finding
from tuner.inputs.settings import Layer
from tuner.render.field_words import field_words, value_words
from tuner.render.json_text import json_text
from tuner.render.publication import extended, publish
from tuner.render.report_values import SCHEMA_VERSION, MemoryCondition, MemoryVerdict, SchemaVersion
from tuner.render.time_report import StepTimeReport
from tuner.trainers.key_facts import KeyChange, KeyKind, KeyState
from tuner.workload import Phase


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
    memory_verdict: MemoryVerdict
    memory_condition: MemoryCondition = None
    refusals: Annotated[tuple[str, ...], Meta(description="codes of the checks that end the launch")]
    worst_phase: Phase
    worst_bytes: Bytes
    interval_bytes: BytesInterval
    capacity_bytes: Bytes
    host_bytes: Annotated[int, Meta(description="bytes of host memory per node")]
    seconds: Annotated[float, Meta(description="of one step, modelled")]
    step_time: StepTimeReport
    left_out: Annotated[tuple[str, ...], Meta(description="parts of the job that are not counted")]


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
    effect: Annotated[Effect | None, Meta(description="null where the two values make no job together")]


class KeyStateReport(KeyState, frozen=True, kw_only=True):
    """A key in one of both configurations, with its value as it may be shown."""

    @property
    def known(self) -> Annotated[bool, Meta(description="the configuration has the key")]:
        """Whether it is there."""
        return self.origin is not None

    @property
    def layer(self) -> Layer | None:
        """Where the value was set."""
        return None if self.origin is None else self.origin.layer

    @property
    def location(self) -> Location | None:
        """The place where it was set."""
        return None if self.origin is None else self.origin.location


class KeyReport(KeyChange, frozen=True, kw_only=True):
    """A key that differs and touches one of both jobs, with what that does."""

    before: KeyStateReport
    after: KeyStateReport
    differences: tuple[DifferenceReport, ...]


class ComparisonReport(Struct, frozen=True, kw_only=True):
    """Everything that ``tuner diff`` found out about two configurations."""

    schema_version: SchemaVersion = SCHEMA_VERSION
    tuner_version: str
    before: SideReport
    after: SideReport
    worse: Annotated[bool, Meta(description="the second no longer starts or fits as the first one does")]
    phases: tuple[PhaseChange, ...]
    change_seconds: Annotated[float, Meta(description="of one step, modelled")]
    change: Annotated[timing.StepChange, Meta(description="of the seconds, with its interval")]
    change_host_bytes: Bytes
    keys: Annotated[tuple[KeyReport, ...], Meta(description="the most telling first")]
    passed_over: Annotated[int, Meta(description="further keys that differ and touch neither job")]
    behaviours: Annotated[
        tuple[DifferenceReport, ...], Meta(description="what differs without a key that shows it")
    ]
    findings_before: Annotated[tuple[Finding, ...], Meta(description="of the first alone")]
    findings_after: Annotated[tuple[Finding, ...], Meta(description="of the second alone")]


publish(PhaseEffect, "PhaseEffectReport")
publish(Effect, "EffectReport", text="What one difference does to the second job.")
publish(
    PhaseChange,
    "PhaseDiffReport",
    *("phase", "before_bytes", "after_bytes", "change_bytes", "parts", "before_seconds", "after_seconds"),
    *("change_seconds", "before_interval_s", "after_interval_s", "change"),
)
publish(
    KeyStateReport,
    "KeyStateReport",
    *("key", "known", "value", "by_user", "layer", "location", "kind"),
    text="A key in one of both configurations.",
    types={
        "value": Any,
        "kind": Annotated[KeyKind | None, Meta(description="what the estimate makes of it")],
    },
)
publish(
    KeyReport,
    "KeyReport",
    *("change", "before", "after", "reason", "differences"),
    text="A key that differs and touches one of both jobs.",
    types={"reason": Annotated[str, Meta(description="why it has no effect, or what is not counted")]},
)
publish(
    Finding,
    "SpokenReport",
    *("code", "name", "severity", "evidence", "message", "keys"),
    text="An error or a warning of one configuration alone.",
)


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
        phases=comparison.phases,
        change_seconds=after.job.case.time.seconds - before.job.case.time.seconds,
        change=comparison.change,
        change_host_bytes=after.job.case.estimate.host_bytes - before.job.case.estimate.host_bytes,
        keys=tuple(map(_key, comparison.keys)),
        passed_over=comparison.passed_over,
        behaviours=tuple(map(_difference, comparison.behaviours)),
        findings_before=comparison.silent,
        findings_after=comparison.spoken,
    )


def _side(side: Side) -> SideReport:
    job = side.job
    estimate = job.case.estimate
    return SideReport(
        source=side.given.source,
        words=side.words,
        trainer=side.loaded.trainer.name,
        release=side.loaded.version,
        release_reason=side.release_reason,
        engine=side.rollout_engine,
        model=side.model,
        gpus=side.gpus,
        verdict=job.verdict,
        memory_verdict=job.memory.verdict,
        memory_condition=job.memory.condition,
        refusals=tuple(dict.fromkeys(refusal.finding.rule.code for refusal in job.refusals)),
        worst_phase=estimate.worst.phase,
        worst_bytes=estimate.worst.peak_bytes,
        interval_bytes=estimate.worst.interval,
        capacity_bytes=estimate.capacity_bytes,
        host_bytes=estimate.host_bytes,
        seconds=job.case.time.seconds,
        step_time=StepTimeReport.of(job.case.step, job.case.time, job.case.workload),
        left_out=tuple(part.name for part in side.left_out),
    )


def _key(entry: KeyEntry) -> KeyReport:
    change = entry.change
    return extended(
        KeyReport,
        change,
        before=_state(change.before),
        after=_state(change.after),
        differences=tuple(map(_difference, entry.differences)),
    )


def _state(state: KeyState) -> KeyStateReport:
    return extended(KeyStateReport, state, value=state.shown)


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
        effect=difference.effect,
    )
