"""Recommendations that no part has judged, each with the reason."""

from collections.abc import Iterable, Iterator

from tuner.advise import Advice, Price, Recommendation
from tuner.units import GIB
from tuner.validate.report import JudgedRecommendation, Outcome, Part, PartReport, Status
from tuner.workload import Phase

Key = tuple[str, tuple[str, ...]]  # a recommendation's code and overrides

_LEAST_SECONDS = 0.005  # as a share of the step: less is not written as a change either
_RUN_BY = {
    Phase.ROLLOUT: Part.ROLLOUT,
    Phase.OLD_LOG_PROB: Part.TRAINING_STEP,
    Phase.REF_LOG_PROB: Part.TRAINING_STEP,
    Phase.UPDATE_ACTOR: Part.TRAINING_STEP,
}


def unjudged(
    advice: Advice, judged: Iterable[Key], parts: Iterable[PartReport]
) -> Iterator[JudgedRecommendation]:
    """A verdict on each recommendation that has none: not measurable, and why."""
    done = set(judged)
    reports = {report.part: report for report in parts}
    for found in advice.recommendations:
        rule = found.finding.rule
        if (rule.code, found.overrides) not in done:
            yield JudgedRecommendation(
                code=rule.code,
                name=rule.name,
                overrides=found.overrides,
                claim=claim(found),
                outcome=Outcome.NOT_MEASURABLE,
                reason=_reason(found, reports),
            )


def claim(found: Recommendation) -> str:
    """What the advice says that a recommendation changes."""
    cost = found.price
    if cost is None or not _claims_something(cost):
        return "no change of memory or time"
    parts = []
    if cost.before_bytes != cost.after_bytes:
        parts.append(f"{cost.phase.value} {_change(cost.before_bytes, cost.after_bytes)}")
    if (cost.worst_before_bytes, cost.worst_after_bytes) not in (
        (cost.before_bytes, cost.after_bytes),
        (cost.worst_before_bytes, cost.worst_before_bytes),
    ):
        parts.append(f"worst phase {_change(cost.worst_before_bytes, cost.worst_after_bytes)}")
    if _changes_time(cost):
        parts.append(f"step time {cost.seconds_after / cost.seconds_before - 1:+.1%}")
    return ", ".join(parts)


def _change(before: int, after: int) -> str:
    return f"{before / GIB:.1f} to {after / GIB:.1f} GiB"


def _changes_time(cost: Price) -> bool:
    return abs(cost.seconds_after - cost.seconds_before) >= _LEAST_SECONDS * cost.seconds_before > 0


def _claims_something(cost: Price) -> bool:
    before, after = (cost.before_bytes, cost.worst_before_bytes), (cost.after_bytes, cost.worst_after_bytes)
    return before != after or _changes_time(cost)


def _reason(found: Recommendation, reports: dict[Part, PartReport]) -> str:
    cost = found.price
    if cost is None or not _claims_something(cost):
        return "claims no bytes and no seconds"
    part = _RUN_BY.get(cost.phase)
    if part is None:
        return f"nothing that is run here covers its phase, {cost.phase.value}"
    report = reports.get(part)
    if report is None:
        return f"nothing of its phase was run: {part.value} was not asked for"
    if report.status is not Status.DONE:
        return f"nothing of its phase was measured with it: {part.value} is {report.status.value}, see there"
    return f"{part.value} runs nothing that this setting changes"
