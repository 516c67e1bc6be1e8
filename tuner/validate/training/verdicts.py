"""Verdicts on recommendations that change a training pass, from that pass without and with the change."""

from dataclasses import dataclass
from statistics import median

from tuner.accuracy import PassComparison
from tuner.advise import Recommendation
from tuner.language import _
from tuner.timing import step_time
from tuner.validate.report.schema import JudgedRecommendation, Measurement, Outcome
from tuner.validate.report.verdicts import PEAK_TOLERANCE, peak_change, peaks, takes_longer, verdict
from tuner.validate.training.passes import PlannedPass
from tuner.validate.training.settings import PassFigures
from tuner.workload import Phase, Workload


@dataclass(frozen=True, kw_only=True)
class MeasuredPass:
    """One pass as it was measured, beside its prediction."""

    planned: PlannedPass
    figures: PassFigures  # of the full model
    compared: PassComparison
    extrapolated: str | None  # how

    @property
    def job_seconds(self) -> tuple[float, ...]:
        """Seconds that the job's whole pass takes on one GPU, by repetition.

        The pass is one optimizer step, or all log-probabilities.
        """
        figures, run = self.figures, self.planned.settings.timed.micro_batches
        fixed = figures.once_seconds or (0.0,) * len(figures.seconds)
        return tuple(
            (seconds - once) * self.planned.micro_batches / run + once
            for seconds, once in zip(figures.seconds, fixed, strict=True)
        )


def judge(
    recommendation: Recommendation, before: MeasuredPass, after: MeasuredPass, *, job: Workload
) -> JudgedRecommendation:
    """A verdict on bytes and on the direction of the time.

    The peak with the change has to be as predicted, and so has what the change makes of it, both within the
    tolerance; and where the time model says that the pass gets no longer, it must not get longer by more than
    its repetitions differ. Where the bytes that are claimed are those of a phase that is not run here,
    figures can refute and not confirm.
    """
    bytes_text, bytes_hold = _bytes(before, after)
    phase = before.planned.phase
    time_text, time_holds = _time(_claimed(recommendation, job, phase), before, after)
    price = recommendation.price
    elsewhere = price is not None and price.phase is not phase and price.before_bytes != price.after_bytes
    text = f"{phase.value}: {bytes_text}{time_text}"
    if not (bytes_hold and time_holds):
        outcome = Outcome.REFUTED
    elif elsewhere and price is not None:
        outcome = Outcome.NOT_MEASURABLE
        text = _("its bytes are those of {phase}, which no training pass shows; {text}").format(
            phase=price.phase.value, text=text
        )
    else:
        outcome = Outcome.CONFIRMED
    measurements = (_peak(before, "without"), _peak(after, "with"), _change(before, after))
    return verdict(recommendation, outcome, text, measurements)


def _bytes(before: MeasuredPass, after: MeasuredPass) -> tuple[str, bool]:
    one, two = before.compared, after.compared
    measured, predicted = two.measured_peak - one.measured_peak, two.predicted_peak - one.predicted_peak
    most = PEAK_TOLERANCE * max(one.measured_peak, two.measured_peak)
    text = _("peak {peaks}").format(peaks=peaks(one.measured_peak, two.measured_peak, predicted))
    change_holds = abs(measured - predicted) <= most
    peak_holds = abs(two.error) <= PEAK_TOLERANCE
    if not change_holds:
        text += _(", more than {peak_tolerance:.0%} of the peak apart").format(peak_tolerance=PEAK_TOLERANCE)
    if not peak_holds:
        text += _(", the peak with it predicted {error:+.1%} off").format(error=two.error)
    return text, change_holds and peak_holds


def _claimed(recommendation: Recommendation, job: Workload, phase: Phase) -> float | None:
    """What the time model says of the phase: by which share its seconds change."""
    proposal = recommendation.finding.proposal
    if proposal is None:
        return None
    # Only the rollout's own time depends on how many sequences run at once.
    times = (step_time(workload, concurrent_sequences=1).phase(phase) for workload in (job, proposal))
    one, two = times
    return None if one is None or two is None or not one.seconds else two.seconds / one.seconds - 1


def _time(claimed: float | None, before: MeasuredPass, after: MeasuredPass) -> tuple[str, bool]:
    one, two = before.job_seconds, after.job_seconds
    if not one or not two:
        return "", True
    first, second = median(one), median(two)
    text = _("; {first:.2f} to {second:.2f} s ({change:+.1%}) for what one GPU of the job computes").format(
        first=first, second=second, change=second / first - 1
    )
    expected = takes_longer(claimed, one, two)
    return (
        (_("{text}, although {expected} was modelled").format(text=text, expected=expected), False)
        if expected
        else (text, True)
    )


def _peak(measured: MeasuredPass, which: str) -> Measurement:
    what = (
        _("peak of {phase} with the change") if which == "with" else _("peak of {phase} without the change")
    )
    compared = measured.compared
    details: dict[str, float | int | str | bool] = {
        "moment": compared.moment,
        "tokens": measured.planned.case.tokens,
        "micro_batches": measured.planned.case.micro_batches,
    }
    if measured.job_seconds:
        details["seconds"] = median(measured.job_seconds)
    return Measurement(
        name=f"{measured.planned.phase.value}.peak.{which}",
        what=what.format(phase=measured.planned.phase.value),
        unit="bytes",
        measured=compared.measured_peak,
        predicted=compared.predicted_peak,
        tolerance=PEAK_TOLERANCE,
        extrapolated=measured.extrapolated,
        details=details,
    )


def _change(before: MeasuredPass, after: MeasuredPass) -> Measurement:
    name, what = f"{before.planned.phase.value}.peak.change", _("what the change makes of the peak")
    return peak_change(name, what, before.compared, after.compared)
