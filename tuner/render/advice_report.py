"""Advice for a program: each finding with its price, all of it together, and what a release leaves open."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.advise import Advice, Price, Recommendation, ReleaseRange, Verdict, Without
from tuner.evidence import Evidence
from tuner.field_marks import Bytes, BytesInterval, Seconds
from tuner.findings import Goal, Numerics, Severity
from tuner.render.memory_report import MemoryReport, memory_report
from tuner.render.report_values import InputPlace
from tuner.render.time_report import StepTimeReport
from tuner.render.words import shown_overrides
from tuner.timing import StepChange
from tuner.workload import Phase


class FindingReport(Struct, frozen=True, kw_only=True):
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
    location: InputPlace | None
    overrides: tuple[str, ...]
    price: Price | None
    refuses: Annotated[bool, Meta(description="the launch ends for this reason, whatever memory there is")]
    yours: Annotated[
        bool, Meta(description="for the user to decide: it changes the training, or makes the job worse")
    ]
    conflicts: tuple[str, ...]


class ContributionReport(Struct, frozen=True, kw_only=True):
    """What one finding puts into the combination, and what the job would be with everything else."""

    code: str
    name: str
    message: str
    overrides: tuple[str, ...]
    without: Annotated[
        Without | None, Meta(description="null where it fixes an error, or the others rest on it")
    ]


class CombinationReport(Struct, frozen=True, kw_only=True):
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
        StepChange | None,
        Meta(description="from the seconds of the cheapest form that runs; null where none does"),
    ] = None


class ConsideredReport(Struct, frozen=True, kw_only=True):
    """One way in which the job may run, since what its release does is not known."""

    name: str
    worst_phase: Phase
    worst_bytes: Bytes
    interval_bytes: BytesInterval
    fits: bool
    fits_for_certain: bool


class ReleaseReport(Struct, frozen=True, kw_only=True):
    """A release that is not bundled, and the job under every behaviour that it may have."""

    release: str
    considered: Annotated[
        tuple[ConsideredReport, ...], Meta(description="first the one that the answer rests on")
    ]
    mean_tokens: Annotated[
        int | None,
        Meta(description="mean tokens per sequence that fit with each; null where no length does"),
    ]
    certain_tokens: Annotated[
        int | None, Meta(description="the same, with the high end of every phase's interval")
    ]


def finding_report(item: Recommendation) -> FindingReport:
    """One piece of advice."""
    finding = item.finding
    return FindingReport(
        code=finding.rule.code,
        name=finding.rule.name,
        severity=finding.severity,
        goal=finding.rule.goal,
        numerics=item.numerics,
        refuses=finding.refuses,
        yours=item.yours,
        evidence=finding.evidence,
        phase=finding.phase,
        message=finding.message,
        notes=finding.notes,
        keys=finding.keys,
        location=InputPlace.of(finding.location) if finding.location is not None else None,
        overrides=shown_overrides(finding, item.overrides),
        price=item.price,
        conflicts=item.conflicts,
    )


def combination_report(advice: Advice) -> CombinationReport | None:
    """All accepted advice together; None where nothing is to be pasted."""
    together = advice.combination
    if together is None:
        return None
    return CombinationReport(
        rules=together.rules,
        overrides=together.overrides,
        contributions=tuple(
            ContributionReport(
                code=part.finding.rule.code,
                name=part.finding.rule.name,
                message=part.finding.message,
                overrides=part.overrides,
                without=part.without,
            )
            for part in together.contributions
        ),
        verdict=together.verdict,
        fits=together.estimate.fits(),
        worst_phase=together.estimate.worst.phase,
        worst_bytes=together.estimate.worst.peak_bytes,
        memory=memory_report(together.estimate, together.time),
        seconds=together.time.seconds,
        step_time=StepTimeReport.of(together.step, together.workload.batch),
        change=together.change,
    )


def release_report(releases: ReleaseRange) -> ReleaseReport:
    """The job under every behaviour that its release may have."""
    return ReleaseReport(
        release=releases.release,
        considered=tuple(
            ConsideredReport(
                name=behaviour.name,
                worst_phase=behaviour.estimate.worst.phase,
                worst_bytes=behaviour.estimate.worst.peak_bytes,
                interval_bytes=behaviour.estimate.worst.interval,
                fits=behaviour.estimate.fits(),
                fits_for_certain=behaviour.estimate.fits_for_certain(),
            )
            for behaviour in releases.considered
        ),
        mean_tokens=releases.mean_tokens,
        certain_tokens=releases.certain_tokens,
    )
