"""Verdicts on recommendations that change a training pass, from that pass without and with the change."""

from dataclasses import dataclass
from statistics import median

from tuner.accuracy import Comparison
from tuner.advise import Recommendation
from tuner.rules.case import LEAST_GAIN
from tuner.validate.pass_settings import PassFigures
from tuner.validate.passes import PlannedPass
from tuner.validate.report import JudgedRecommendation, Measurement, Outcome
from tuner.validate.verdicts import PEAK_TOLERANCE, peaks, verdict


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One pass as it was measured, beside its prediction."""

    planned: PlannedPass
    figures: PassFigures  # of the full model
    compared: Comparison
    extrapolated: str | None  # how

    @property
    def step_seconds(self) -> tuple[float, ...]:
        """Of each repetition: the job's whole pass on one GPU, an optimizer step or all log-probabilities."""
        figures, run = self.figures, self.planned.settings.timed.micro_batches
        steps = figures.step_seconds or (0.0,) * len(figures.seconds)
        return tuple(
            (seconds - step) * self.planned.micro_batches / run + step
            for seconds, step in zip(figures.seconds, steps, strict=True)
        )


def judge(found: Recommendation, before: Measured, after: Measured) -> JudgedRecommendation:
    """A verdict on bytes and on the direction of the time.

    The peak with the change has to be as predicted, and so has what the change makes of it, both within the
    tolerance; and where the advice says that a step gets no longer, the pass must not get longer by more than
    its repetitions differ. Where the bytes that are claimed are those of a phase that is not run here,
    figures can refute and not confirm.
    """
    bytes_text, bytes_hold = _bytes(before, after)
    time_text, time_holds = _time(found, before, after)
    phase = before.planned.phase
    price = found.price
    elsewhere = price is not None and price.phase is not phase and price.before_bytes != price.after_bytes
    text = f"{phase.value}: {bytes_text}{time_text}"
    if not (bytes_hold and time_holds):
        outcome = Outcome.REFUTED
    elif elsewhere and price is not None:
        outcome = Outcome.NOT_MEASURABLE
        text = f"its bytes are those of {price.phase.value}, which no training pass shows; {text}"
    else:
        outcome = Outcome.CONFIRMED
    measurements = (_peak(before, "without"), _peak(after, "with"), _change(before, after))
    return verdict(found, outcome, text, measurements)


def _bytes(before: Measured, after: Measured) -> tuple[str, bool]:
    one, two = before.compared, after.compared
    measured, predicted = two.measured_peak - one.measured_peak, two.predicted_peak - one.predicted_peak
    most = PEAK_TOLERANCE * max(one.measured_peak, two.measured_peak)
    text = f"peak {peaks(one.measured_peak, two.measured_peak, predicted)}"
    change_holds = abs(measured - predicted) <= most
    peak_holds = abs(two.error) <= PEAK_TOLERANCE
    if not change_holds:
        text += f", more than {PEAK_TOLERANCE:.0%} of the peak apart"
    if not peak_holds:
        text += f", the peak with it predicted {two.error:+.1%} off"
    return text, change_holds and peak_holds


def _time(found: Recommendation, before: Measured, after: Measured) -> tuple[str, bool]:
    one, two = before.step_seconds, after.step_seconds
    if not one or not two:
        return "", True
    first, second = median(one), median(two)
    text = f"; {first:.2f} to {second:.2f} s ({second / first - 1:+.1%}) for what one GPU of the job computes"
    price = found.price
    if price is None or price.seconds_after > price.seconds_before * (1 + LEAST_GAIN):
        return text, True
    spread = max(max(each) - min(each) for each in (one, two))
    if second - first <= max(spread, LEAST_GAIN * first):
        return text, True
    claimed = "shorter" if price.seconds_after < price.seconds_before * (1 - LEAST_GAIN) else "no longer"
    return f"{text}, although a step {claimed} than before was claimed", False


def _peak(measured: Measured, which: str) -> Measurement:
    compared = measured.compared
    details: dict[str, float | int | str | bool] = {
        "moment": compared.moment,
        "tokens": measured.planned.case.tokens,
        "micro_batches": measured.planned.case.micro_batches,
    }
    if measured.step_seconds:
        details["seconds"] = median(measured.step_seconds)
    return Measurement(
        name=f"{measured.planned.phase.value}.peak.{which}",
        what=f"peak of {measured.planned.phase.value} {which} the change",
        unit="bytes",
        measured=compared.measured_peak,
        predicted=compared.predicted_peak,
        tolerance=PEAK_TOLERANCE,
        extrapolated=measured.extrapolated,
        details=details,
    )


def _change(before: Measured, after: Measured) -> Measurement:
    one, two = before.compared, after.compared
    predicted = two.predicted_peak - one.predicted_peak
    most = PEAK_TOLERANCE * max(one.measured_peak, two.measured_peak)
    return Measurement(
        name=f"{before.planned.phase.value}.peak.change",
        what="what the change makes of the peak",
        unit="bytes",
        measured=two.measured_peak - one.measured_peak,
        predicted=predicted,
        low=predicted - most,
        high=predicted + most,
    )
