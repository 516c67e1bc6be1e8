"""Recommendations that no part has judged, each with the reason."""

from collections.abc import Iterable, Iterator

from tuner.advise import Advice, Recommendation
from tuner.language import _
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import JudgedRecommendation, Outcome, PartReport, Status
from tuner.validate.report.verdicts import CLAIMS_NOTHING, claims_something, verdict
from tuner.workload import Phase

Key = tuple[str, tuple[str, ...]]  # a recommendation's code and overrides

_RUN_BY = {
    Phase.ROLLOUT: ValidationPart.ROLLOUT,
    Phase.OLD_LOG_PROB: ValidationPart.TRAINING_STEP,
    Phase.REF_LOG_PROB: ValidationPart.TRAINING_STEP,
    Phase.UPDATE_ACTOR: ValidationPart.TRAINING_STEP,
}


def unjudged(
    advice: Advice, judged: Iterable[Key], parts: Iterable[PartReport]
) -> Iterator[JudgedRecommendation]:
    """A verdict on each recommendation that has none: not measurable, and why."""
    done = set(judged)
    reports = {report.part: report for report in parts}
    for recommendation in advice.recommendations:
        rule = recommendation.finding.rule
        if (rule.code, recommendation.overrides) not in done:
            yield verdict(recommendation, Outcome.NOT_MEASURABLE, _reason(recommendation, reports))


def _reason(recommendation: Recommendation, reports: dict[ValidationPart, PartReport]) -> str:
    cost = recommendation.price
    if cost is None or not claims_something(recommendation):
        return _(CLAIMS_NOTHING)
    part = _RUN_BY.get(cost.phase)
    if part is None:
        return _("nothing that is run here covers its phase, {phase}").format(phase=cost.phase.value)
    report = reports.get(part)
    if report is None:
        return _("nothing of its phase was run: {part} was not asked for").format(part=part.value)
    if report.status is not Status.DONE:
        return _("nothing of its phase was measured with it: {part} is {status}, see there").format(
            part=part.value, status=report.status.value
        )
    return _("{part} runs nothing that this setting changes").format(part=part.value)
