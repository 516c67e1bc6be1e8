"""Fills the report's models. Nothing is rounded and nothing is left out."""

from collections.abc import Sequence

from msgspec.structs import replace

from tuner import __version__
from tuner.advise import Advice, Recommendation, ReleaseRange
from tuner.advise.allocation import Explanation
from tuner.errors import Location
from tuner.hardware import Cluster
from tuner.inputs.given import LostOverride, Remark
from tuner.memory import Estimate
from tuner.memory.derivations import symbols
from tuner.memory.head.logits import published_rule_bytes
from tuner.model_shape import ModelShape
from tuner.render.allocation import formula
from tuner.render.answer import Answer, Settled
from tuner.render.batches import batch_rows
from tuner.render.head_table import HeadSizes, head_rows, token_rows
from tuner.render.json_text import json_text
from tuner.render.observed_report import log_report
from tuner.render.report import (
    AllocationReport,
    CandidateReport,
    CombinationReport,
    ConsideredReport,
    ContributionReport,
    FindingReport,
    HeadReport,
    LeftOutReport,
    MemoryReport,
    MomentReport,
    OpenValue,
    PhaseReport,
    PhaseTimeReport,
    Place,
    Premises,
    ProjectSetting,
    ReleaseReport,
    Report,
    SavingTimeReport,
    ScriptRemark,
    StepTimeReport,
    SymbolReport,
    TermReport,
    TimePart,
    Unknown,
    UserSetting,
)
from tuner.timing import PhaseTime, StepTime, phase_interval
from tuner.timing.saving import SavingTime, storage_bytes_per_s
from tuner.trainers.protocol import LeftOut


def report(answer: Answer) -> Report:
    """The whole answer."""
    advice = answer.advice
    return Report(
        tuner_version=__version__,
        premises=_premises(answer),
        workload=advice.workload,
        verdict=advice.verdict,
        memory_verdict=advice.memory_verdict,
        cheapest_run=advice.cheapest,
        mean_tokens=advice.mean_tokens,
        left_out=tuple(map(_left_out, answer.left_out)),
        batches=batch_rows(advice.workload),
        memory=_memory(advice.estimate, advice.time),
        # Below zero it says how much is missing, which is no size of a cache.
        rollout=None
        if advice.rollout is None
        else replace(advice.rollout, kv_bytes=max(0, advice.rollout.kv_bytes)),
        time=_time(advice.time, advice.workload.cluster),
        step_time=StepTimeReport.of(advice.step, advice.workload.batch),
        saving=_saving(advice.saving, advice.workload.cluster),
        findings=tuple(_finding(item) for item in advice.recommendations),
        combination=_combination(advice),
        symbols=_symbols(advice),
        failed_allocation=None if answer.allocation is None else allocation_report(answer.allocation),
        release_range=None if advice.releases is None else _releases(advice.releases),
        log=None if answer.given.log is None else log_report(answer, answer.given.log),
    )


def _releases(releases: ReleaseRange) -> ReleaseReport:
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


def _symbols(advice: Advice) -> tuple[SymbolReport, ...]:
    estimate = advice.estimate
    terms = [term for phase in estimate.phases for moment in phase.moments for term in moment.terms]
    terms += estimate.host_terms
    return tuple(SymbolReport.of(symbol) for symbol in symbols(advice.workload, terms))


def advice_json(answer: Answer) -> str:
    """The report as JSON."""
    return json_text(report(answer))


def head_json(sizes: HeadSizes, model: ModelShape | None, allocation: Explanation | None = None) -> str:
    """The table of the output head as JSON."""
    written = HeadReport(
        tuner_version=__version__,
        sizes=sizes,
        heads=head_rows(sizes),
        published_rule_bytes=published_rule_bytes(tokens=sizes.tokens, vocab=sizes.vocab),
        model=model.name if model is not None else None,
        tokens=token_rows(sizes, model) if model is not None else (),
        failed_allocation=None if allocation is None else allocation_report(allocation),
    )
    return json_text(written)


def _premises(answer: Answer) -> Premises:
    workload = answer.advice.workload
    critic, rollout_engine = workload.critic, answer.rollout_engine
    return Premises(
        source=answer.given.source,
        trainer=workload.release.trainer,
        release=workload.release.version,
        release_reason=answer.release_reason,
        engine=None if rollout_engine is None else f"{rollout_engine.name} {rollout_engine.version}",
        engine_reason=None if rollout_engine is None else rollout_engine.reason,
        model_reason=answer.model_reason,
        model_named_in=workload.model.contained_in or None,
        parameters=workload.model.parameters,
        active_parameters=workload.model.active_parameters,
        critic_parameters=critic.model.parameters if critic is not None else None,
        gpu_reason=answer.gpu_reason,
        gpu_assumed=answer.gpu_assumed,
        gpus_reason=answer.gpus_reason,
        headroom=answer.advice.headroom,
        settings=_settings(answer),
        project_settings=tuple(map(project_setting, answer.settled)),
        resting_on_defaults=dict(answer.resting),
        fitting_values=dict(answer.fitting),
        unknown_keys=tuple(
            Unknown(
                key=unknown.key,
                nearest=unknown.nearest,
                known_in=unknown.known_in,
                location=_place(unknown.location),
            )
            for unknown in answer.settings.unknown
        ),
        open_values=tuple(
            OpenValue(key=value.key, text=value.text, variable=value.name, location=_place(value.location))
            for value in answer.given.unsettled
        ),
        lost_overrides=_remarks(answer.given.lost),
        script_remarks=_remarks(answer.given.remarks),
    )


def _remarks(remarks: Sequence[LostOverride] | Sequence[Remark]) -> tuple[ScriptRemark, ...]:
    return tuple(ScriptRemark(text=remark.text, location=_place(remark.location)) for remark in remarks)


def _settings(answer: Answer) -> tuple[UserSetting, ...]:
    settings = (answer.settings.setting(key) for key in answer.settings.user_keys)
    return tuple(
        UserSetting(
            key=setting.key,
            value=setting.value,
            layer=setting.origin.layer,
            location=_place(setting.origin.location) if setting.origin.location is not None else None,
            text=setting.origin.text,
        )
        for setting in settings
        if setting is not None
    )


def _left_out(part: LeftOut) -> LeftOutReport:
    location = None if part.origin is None else part.origin.location
    return LeftOutReport(
        name=part.name,
        key=part.key,
        value=part.value,
        location=None if location is None else _place(location),
        reason=part.reason,
        affects=part.affects,
    )


def project_setting(said: Settled) -> ProjectSetting:
    """What the settings of a project say in place of an option."""
    return ProjectSetting(option=said.option, value=said.value, location=_place(said.location))


def _place(location: Location) -> Place:
    return Place(source=location.source, line=location.line, column=location.column)


def _memory(estimate: Estimate, time: StepTime) -> MemoryReport:
    phases = []
    for phase in estimate.phases:
        spent = time.phase(phase.phase)
        moments = tuple(
            MomentReport(
                name=moment.name,
                bytes=moment.bytes,
                terms=tuple(TermReport.of(term) for term in moment.terms),
            )
            for moment in phase.moments
        )
        phases.append(
            PhaseReport(
                phase=phase.phase,
                peak_bytes=phase.peak_bytes,
                interval_bytes=phase.interval,
                allocated_bytes=phase.allocated_bytes,
                reserved_interval_bytes=phase.reserved_interval,
                peak_moment=phase.peak.name,
                moments=moments,
                seconds=spent.seconds if spent is not None else None,
            )
        )
    return MemoryReport(
        capacity_bytes=estimate.capacity_bytes,
        worst_phase=estimate.worst.phase,
        host_bytes=estimate.host_bytes,
        host_interval_bytes=(estimate.host_bytes, estimate.host_high_bytes),
        host_terms=tuple(TermReport.of(term) for term in estimate.host_terms),
        host_capacity_bytes=estimate.host_capacity_bytes,
        problems=estimate.problems,
        doubts=estimate.doubts,
        phases=tuple(phases),
    )


def _time(time: StepTime, cluster: Cluster) -> tuple[PhaseTimeReport, ...]:
    return tuple(_phase_time(phase, cluster) for phase in time.phases)


def _phase_time(phase: PhaseTime, cluster: Cluster) -> PhaseTimeReport:
    interval = phase_interval(phase, cluster)
    return PhaseTimeReport(
        phase=phase.phase,
        seconds=phase.seconds,
        parts=tuple(TimePart(name=name, seconds=seconds) for name, seconds in phase.parts),
        low_s=interval.low_s,
        high_s=interval.high_s,
        evidence=interval.evidence,
        rates_of=interval.rates_of,
    )


def _saving(saving: SavingTime | None, cluster: Cluster) -> SavingTimeReport | None:
    if saving is None:
        return None
    return SavingTimeReport(
        waits=_phase_time(saving.waits, cluster),
        background_s=saving.background_s,
        written_bytes=saving.written_bytes,
        storage_bytes_per_s=storage_bytes_per_s(cluster),
        storage_assumed=cluster.storage_bytes_per_s is None,
        every_steps=saving.every_steps,
        step_seconds=saving.step_seconds,
    )


def _finding(item: Recommendation) -> FindingReport:
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
        location=_place(finding.location) if finding.location is not None else None,
        overrides=item.overrides,
        price=item.price,
        conflicts=item.conflicts,
    )


def allocation_report(explanation: Explanation) -> AllocationReport:
    """A failed allocation and what it can have been."""
    failed = explanation.failed
    return AllocationReport(
        text=failed.text,
        low_bytes=failed.low_bytes,
        high_bytes=failed.high_bytes,
        free_bytes=failed.free_bytes,
        unused_bytes=failed.unused_bytes,
        standing=explanation.standing,
        candidates=tuple(
            CandidateReport(
                name=match.tensor.name,
                what=match.tensor.what,
                made_by=match.tensor.made_by,
                item=match.tensor.item,
                phases=match.tensor.phases,
                formula=formula(match),
                confidence=match.confidence,
                tokens=match.tokens,
                low_tokens=match.low_tokens,
                high_tokens=match.high_tokens,
                full_tokens=match.tensor.tokens,
                advice=explained.advice,
            )
            for explained in explanation.candidates
            for match in (explained.match,)
        ),
    )


def _combination(advice: Advice) -> CombinationReport | None:
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
        memory=_memory(together.estimate, together.time),
        seconds=together.time.seconds,
        step_time=StepTimeReport.of(together.step, together.workload.batch),
        change=together.change,
    )
