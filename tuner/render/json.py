"""Fills the reports of an answer. Nothing is rounded and nothing is left out."""

from msgspec.structs import replace

from tuner import __version__
from tuner.consultation.carrying import answered_carrying
from tuner.consultation.head import HeadConsultation, head_rows, token_rows
from tuner.consultation.result import Consultation
from tuner.memory.head.logits import published_rule_bytes
from tuner.render.advice_report import combination_report, finding_report
from tuner.render.batches import batch_rows
from tuner.render.json_text import json_text
from tuner.render.memory_report import memory_report, symbols_of
from tuner.render.observed_report import log_report
from tuner.render.premises_report import left_out_report, premises_of
from tuner.render.report import HeadReport, Report
from tuner.render.time_report import StepTimeReport, phase_times, saving_report, validation_report


def report(answer: Consultation) -> Report:
    """The whole answer."""
    advice = answer.advice
    return Report(
        tuner_version=__version__,
        premises=premises_of(answer),
        workload=advice.workload,
        verdict=advice.verdict,
        validates_only=advice.validates_only,
        memory_verdict=advice.memory_verdict,
        memory_condition=advice.memory_condition,
        cheapest_run=advice.cheapest,
        mean_tokens=advice.mean_tokens,
        carries=answered_carrying(answer),
        left_out=tuple(map(left_out_report, answer.left_out)),
        batches=()
        if advice.workload.unmodelled_engine or advice.validates_only
        else batch_rows(advice.workload),
        memory=memory_report(advice.estimate, advice.time),
        # Below zero it says how much is missing, which is no size of a cache.
        rollout=None
        if advice.rollout is None
        else replace(advice.rollout, kv_bytes=max(0, advice.rollout.kv_bytes)),
        time=phase_times(advice.time, advice.workload.cluster),
        step_time=None
        if advice.workload.unmodelled_engine or advice.validates_only
        else StepTimeReport.of(advice.step, advice.time, advice.workload),
        saving=saving_report(advice.saving, advice.workload.cluster),
        validation=validation_report(answer.validation, advice.workload.cluster),
        findings=tuple(finding_report(item) for item in advice.recommendations),
        combination=combination_report(advice),
        additions=advice.additions,
        withheld=advice.withheld,
        symbols=symbols_of(advice),
        failed_allocation=answer.allocation,
        release_range=advice.releases,
        log=None if answer.given.log is None else log_report(answer, answer.given.log),
    )


def advice_json(answer: Consultation) -> str:
    """The report as JSON."""
    return json_text(report(answer))


def head_report(consultation: HeadConsultation) -> HeadReport:
    """The table of the output head."""
    sizes, model = consultation.sizes, consultation.model
    return HeadReport(
        tuner_version=__version__,
        sizes=sizes,
        heads=head_rows(sizes),
        published_rule_bytes=published_rule_bytes(tokens=sizes.tokens, vocab=sizes.vocab),
        model=model.name if model is not None else None,
        tokens=token_rows(sizes, model) if model is not None else (),
        gpu=None if consultation.card is None else consultation.card.gpu.name,
        capacity_bytes=None if consultation.card is None else consultation.card.gpu.capacity_bytes,
        failed_allocation=consultation.allocation,
    )


def head_json(consultation: HeadConsultation) -> str:
    """The table of the output head as JSON."""
    return json_text(head_report(consultation))
