"""Verdicts on recommendations that change the output head, from what was measured of both heads."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tuner.advise import Recommendation
from tuner.language import _
from tuner.rules.case import LEAST_GAIN
from tuner.validate.head.settings import (
    HeadFigures,
    HeadPass,
    HeadUse,
    HeadWork,
    ImplementationFigures,
    at_size,
)
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome
from tuner.validate.report.verdicts import PEAK_TOLERANCE, peaks, verdict
from tuner.validate.session import Subject
from tuner.workload import Backend, Phase, Workload
from tuner.workload.head import head_label

_SAME_SECONDS = 0.02  # medians that differ by less are the same


@dataclass(frozen=True, kw_only=True)
class _MeasuredHead:
    """One head in one pass: peak and seconds at the wanted tokens."""

    way: HeadUse
    predicted_bytes: int
    measured_bytes: float
    seconds: float | None
    extrapolated: str | None


def judge_heads(subject: Subject, figures: HeadFigures, work: HeadWork) -> Iterator[JudgedRecommendation]:
    """One verdict for each recommendation that sets another head, beside whatever else it changes."""
    now = subject.workload.actor.head
    for recommendation in subject.advice.recommendations:
        proposal = recommendation.finding.proposal
        if proposal is not None and proposal.actor.head != now:
            yield _judge(recommendation, subject.workload, proposal, figures, work)


def _judge(
    recommendation: Recommendation,
    workload: Workload,
    proposal: Workload,
    figures: HeadFigures,
    work: HeadWork,
) -> JudgedRecommendation:
    phase = recommendation.finding.phase or (recommendation.price.phase if recommendation.price else None)
    pair, reason = _pair(phase, workload, proposal, figures, work)
    if pair is None:
        return verdict(recommendation, Outcome.NOT_MEASURABLE, reason)
    before, after = pair
    predicted = after.predicted_bytes - before.predicted_bytes
    measured = after.measured_bytes - before.measured_bytes
    peak_agrees = abs(measured - predicted) <= PEAK_TOLERANCE * before.measured_bytes
    slower = _contradiction(recommendation, before, after)
    outcome = Outcome.CONFIRMED if peak_agrees and not slower else Outcome.REFUTED
    text = _("peak of the head {peaks}").format(
        peaks=peaks(before.measured_bytes, after.measured_bytes, predicted)
    )
    if before.seconds is not None and after.seconds is not None:
        text += _("; {before:.1f} to {after:.1f} ms{slower}").format(
            before=before.seconds * 1000, after=after.seconds * 1000, slower=slower
        )
    return verdict(recommendation, outcome, text, (_shown(before, "without"), _shown(after, "with")))


def _pair(
    phase: Phase | None, workload: Workload, proposal: Workload, figures: HeadFigures, work: HeadWork
) -> tuple[tuple[_MeasuredHead, _MeasuredHead] | None, str]:
    """The figures of a pair of heads as measured, or why there are none."""
    if workload.actor.engine.backend is Backend.MEGATRON:
        return None, _("Megatron's head, whose vocabulary GPUs share, is not run here")
    training = phase is Phase.UPDATE_ACTOR
    one_pass = workload.actor.update if training else workload.actor.log_prob
    if one_pass is None:
        return None, _("the step has no pass of the actor that computes log-probabilities alone")
    heads = []
    for head in (workload.actor.head, proposal.actor.head):
        way = HeadUse.of(head, entropy=one_pass.entropy)
        measured_head = next(
            (implementation for implementation in figures.found if implementation.way == way), None
        )
        if measured_head is None:
            return None, _("the budget had no room for {way}").format(way=head_label(way.name))
        nothing = _("no bytes are counted here")
        measured = _measured_head(measured_head, way, work, training=training)
        if measured is None:
            return None, f"{head_label(way.name)}: {measured_head.missing or nothing}"
        heads.append(measured)
    return (heads[0], heads[1]), ""


def _measured_head(
    implementation: ImplementationFigures, way: HeadUse, work: HeadWork, *, training: bool
) -> _MeasuredHead | None:
    tokens = work.shape.tokens if training else work.forward_tokens
    one_pass = HeadPass.BOTH if training else HeadPass.FORWARD
    sizes = implementation.sizes if tokens == work.shape.tokens else implementation.forward
    peak = at_size(tokens, [(one.tokens, one.peak_bytes[one_pass]) for one in sizes if one.peak_bytes])
    taken = at_size(tokens, [(one.tokens, one.seconds[one_pass]) for one in sizes if one_pass in one.seconds])
    if peak is None:
        return None
    shape = replace(work.shape, tokens=tokens)
    return _MeasuredHead(
        way=way,
        predicted_bytes=way.peak_bytes(shape, training=training),
        measured_bytes=peak.value,
        seconds=None if taken is None else taken.value,
        extrapolated=peak.how,
    )


def _contradiction(recommendation: Recommendation, before: _MeasuredHead, after: _MeasuredHead) -> str:
    """What the times say against a claim that the step gets shorter; empty where they do not."""
    price = recommendation.price
    if price is None or before.seconds is None or after.seconds is None:
        return ""
    claimed = price.time_change is not None and price.time_change < -LEAST_GAIN
    if claimed and after.seconds > before.seconds * (1 + _SAME_SECONDS):
        return _(", although a shorter step was claimed")
    return ""


def _shown(head: _MeasuredHead, which: str) -> Measurement:
    details: dict[str, float | int | str | bool] = {"head": head.way.name}
    if head.seconds is not None:
        details["seconds"] = head.seconds
    what = (
        _("{way}: peak of the head with the change")
        if which == "with"
        else _("{way}: peak of the head without the change")
    )
    return Measurement(
        name=f"output_head.{which}",
        what=what.format(way=head_label(head.way.name)),
        unit="bytes",
        measured=head.measured_bytes,
        predicted=head.predicted_bytes,
        extrapolated=head.extrapolated,
        details=details,
    )
