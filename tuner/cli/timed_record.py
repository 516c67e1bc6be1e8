"""A recorded run beside both models: read as ``tuner advise`` reads it."""

from pathlib import Path

from tuner.accuracy import TimedFile, UnpredictedRecord
from tuner.accuracy.recorded_runs import RecordedPeak
from tuner.advise.observations import PeakComparison
from tuner.cli.timed_runs import timed_phases
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.inputs.record.read import read_record
from tuner.language import _


def timed_record(folder: str) -> tuple[TimedFile, tuple[RecordedPeak, ...]]:
    """The seconds and the peaks of a record beside their predictions.

    Raises:
        TunerError: it is no record, or its configuration cannot be used.
    """
    read_record(Path(folder))  # another folder of a run has no peaks
    answer = consult(folder, (), Premises(), block=False)
    case = Path(folder).absolute().name
    if answer.run is None:
        left_out = UnpredictedRecord(case=case, reason=_("no step has ended"))
        return TimedFile(source=folder, left_out=(left_out,)), ()
    advice, beside = answer.advice, answer.run.observations
    phases = tuple(timed_phases(case, advice.workload, advice.time, beside.run))
    peaks = (_peak(case, one) for one in beside.peaks)
    return TimedFile(source=folder, phases=phases), tuple(peak for peak in peaks if peak is not None)


def _peak(case: str, one: PeakComparison) -> RecordedPeak | None:
    """A peak that has both; None of a phase that the model does not have."""
    if one.modelled_bytes is None or one.modelled_high_bytes is None or not one.allocated_bytes:
        return None
    assert one.modelled_reserved_bytes is not None  # known with the others
    return RecordedPeak(
        case=case,
        phase=one.phase.value,
        predicted_bytes=one.modelled_bytes,
        predicted_high_bytes=one.modelled_high_bytes,
        measured_bytes=one.allocated_bytes,
        predicted_reserved_bytes=one.modelled_reserved_bytes,
        measured_reserved_bytes=one.reserved_bytes,
    )
