"""Figures of the report about peaks of a pass, whichever part has measured it."""

from tuner.accuracy import PassComparison
from tuner.validate.report.schema import Measurement
from tuner.validate.report.verdicts import PEAK_TOLERANCE


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
