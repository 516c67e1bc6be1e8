"""What measurements say of one recommendation, and what several parts say of it together."""

from collections.abc import Sequence
from statistics import median

from tuner.advise import Price, Recommendation
from tuner.language import N_, _
from tuner.rules.case import LEAST_GAIN
from tuner.units import GIB
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome

#: Of a measured peak: what a predicted peak, or what a change is predicted to make of it, may be off.
PEAK_TOLERANCE = 0.03
#: Of a recommendation for which :func:`claims_something` is false.
CLAIMS_NOTHING = N_("claims no bytes and no seconds")


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
