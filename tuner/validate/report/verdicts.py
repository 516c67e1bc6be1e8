"""What measurements say of a recommendation, also of one that no part judged, and of a predicted peak."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from tuner.accuracy import PassComparison
from tuner.advise import Advice, Price, Recommendation
from tuner.language import N_, _
from tuner.rules.case import LEAST_GAIN
from tuner.units import GIB
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome, PartReport, Status
from tuner.workload import Phase

#: Of a measured peak: what a predicted peak, or what a change is predicted to make of it, may be off.
PEAK_TOLERANCE = 0.03
#: Of a recommendation for which :func:`claims_something` is false.
CLAIMS_NOTHING = N_("claims no bytes and no seconds")


Key = tuple[str, tuple[str, ...]]  # a recommendation's code and overrides
_RUN_BY = {
    Phase.ROLLOUT: ValidationPart.ROLLOUT,
    Phase.OLD_LOG_PROB: ValidationPart.TRAINING_STEP,
    Phase.REF_LOG_PROB: ValidationPart.TRAINING_STEP,
    Phase.UPDATE_ACTOR: ValidationPart.TRAINING_STEP,
}


def verdict(
    recommendation: Recommendation, outcome: Outcome, reason: str, measurements: tuple[Measurement, ...] = ()
) -> JudgedRecommendation:
    """One part's verdict, with the figures without and with the change."""
    rule = recommendation.finding.rule
    return JudgedRecommendation(
        code=rule.code,
        name=rule.name,
        overrides=recommendation.overrides,
        claim=claim(recommendation),
        outcome=outcome,
        reason=reason,
        measurements=measurements,
    )


def joined(earlier: JudgedRecommendation, later: JudgedRecommendation) -> JudgedRecommendation:
    """Two parts' verdicts on one recommendation: refuted if either says so.

    A part that could not measure it takes nothing from what another has measured.
    """
    if later.outcome is Outcome.NOT_MEASURABLE:
        return earlier
    if earlier.outcome is Outcome.NOT_MEASURABLE and not earlier.measurements:
        return later
    refuted = Outcome.REFUTED in (earlier.outcome, later.outcome)
    return earlier.model_copy(
        update={
            "outcome": Outcome.REFUTED if refuted else later.outcome,
            "reason": f"{earlier.reason}; {later.reason}",
            "measurements": (*earlier.measurements, *later.measurements),
        }
    )


def takes_longer(claimed: float | None, before: Sequence[float], after: Sequence[float]) -> str:
    """What the time model says where seconds refute it; empty where they do not.

    Where it says that something gets no longer, that must not get longer by more than its repetitions differ.

    Args:
        claimed: by which share the seconds are modelled to change; None where nothing is claimed.
        before: seconds of each repetition without the change.
        after: with it.
    """
    if claimed is None or claimed > LEAST_GAIN:
        return ""
    first, second = median(before), median(after)
    spread = max(max(repetitions) - min(repetitions) for repetitions in (before, after))
    if second - first <= max(spread, LEAST_GAIN * first):
        return ""
    return f"{claimed:+.1%}" if claimed < -LEAST_GAIN else _("no longer one")


def peaks(before: float, after: float, predicted_change: int) -> str:
    """Measured peaks without and with a change, and what the change was predicted to make of them."""
    return _(
        "{before:.2f} to {after:.2f} GiB, {change:+.2f} GiB where {predicted:+.2f} GiB was predicted"
    ).format(
        before=before / GIB,
        after=after / GIB,
        change=(after - before) / GIB,
        predicted=predicted_change / GIB,
    )


def claim(recommendation: Recommendation) -> str:
    """What the advice says that a recommendation changes."""
    cost = recommendation.price
    if cost is None or not claims_something(recommendation):
        return _("no change of memory or time")
    parts = []
    if cost.before_bytes != cost.after_bytes:
        parts.append(f"{cost.phase.value} {_change(cost.before_bytes, cost.after_bytes)}")
    if (cost.worst_before_bytes, cost.worst_after_bytes) not in (
        (cost.before_bytes, cost.after_bytes),
        (cost.worst_before_bytes, cost.worst_before_bytes),
    ):
        parts.append(
            _("worst phase {change}").format(change=_change(cost.worst_before_bytes, cost.worst_after_bytes))
        )
    if _changes_time(cost):
        parts.append(_("step time {time_change:+.1%}").format(time_change=cost.time_change))
    return ", ".join(parts)


def _change(before: int, after: int) -> str:
    return _("{before:.1f} to {after:.1f} GiB").format(before=before / GIB, after=after / GIB)


def _changes_time(cost: Price) -> bool:
    return abs(cost.time_change or 0.0) >= LEAST_GAIN


def claims_something(recommendation: Recommendation) -> bool:
    """Whether the advice promises other bytes or another time."""
    cost = recommendation.price
    if cost is None:
        return False
    before, after = (cost.before_bytes, cost.worst_before_bytes), (cost.after_bytes, cost.worst_after_bytes)
    return before != after or _changes_time(cost)


def reserved(name: str, what: str, measured_bytes: int, compared: PassComparison) -> Measurement:
    """What PyTorch's allocator held at most, beside the interval that it may hold.

    Args:
        name: of the figure.
        what: the same to read.
        measured_bytes: what it held.
        compared: the pass beside its prediction.
    """
    low, high = compared.interval
    return Measurement(name=name, what=what, unit="bytes", measured=measured_bytes, low=low, high=high)


def peak_change(name: str, what: str, before: PassComparison, after: PassComparison) -> Measurement:
    """What a change makes of a peak; both may be off by the tolerance of a peak.

    Args:
        name: of the figure.
        what: the same to read.
        before: the pass without the change, beside its prediction.
        after: the same with it.
    """
    predicted = after.predicted_peak - before.predicted_peak
    most = PEAK_TOLERANCE * max(before.measured_peak, after.measured_peak)
    return Measurement(
        name=name,
        what=what,
        unit="bytes",
        measured=after.measured_peak - before.measured_peak,
        predicted=predicted,
        low=predicted - most,
        high=predicted + most,
    )


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
