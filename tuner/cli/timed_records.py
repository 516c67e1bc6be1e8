"""A recorded run beside the model: the seconds and the peaks of a record, a log or a bundle."""

from collections.abc import Iterator
from pathlib import Path

from tuner.accuracy import MeasurementOrigin, RunRemark, TimedFile, TimedPhase, UnpredictedRecord
from tuner.accuracy.recorded_runs import STEP, RecordedPeak
from tuner.accuracy.steps import passes_not_made, timed_phases
from tuner.advise.observations import MemoryComparison, PeakComparison
from tuner.consultation.consult import consult
from tuner.consultation.premises import Premises
from tuner.consultation.result import Consultation
from tuner.inputs.record.read import read_record
from tuner.language import _
from tuner.workload.observed_run import ObservedRun


def timed_record(folder: str) -> TimedFile:
    """The seconds and the peaks of a record beside their predictions.

    Raises:
        TunerError: it is no record, or its configuration cannot be used.
    """
    read_record(Path(folder))  # another folder of a run has no peaks
    return timed_answer(folder, consult(folder, (), Premises(), block=False))


def timed_bundle(file: str) -> TimedFile:
    """The seconds and the peaks of a bundle beside their predictions of today.

    Raises:
        TunerError: it cannot be read, or its configuration cannot be used.
    """
    return timed_answer(file, consult(file, (), Premises(), block=False))


def timed_answer(source: str, answer: Consultation) -> TimedFile:
    """What the run that an answer is about shows, beside what is predicted."""
    case = Path(source).absolute().name
    if answer.run is None:
        left_out = UnpredictedRecord(case=case, reason=_("no step has ended"))
        return TimedFile(source=source, left_out=(left_out,))
    advice, observations = answer.advice, answer.run.observations
    missing = passes_not_made(advice.time, observations.run)
    text = _("no timer of the run has {phases}: the predicted step is without")
    remark = RunRemark(case=case, text=text.format(phases=", ".join(phase.value for phase in missing)))
    peaks = [_peak(case, one) for one in observations.peaks]
    if not peaks and observations.memory is not None:
        peaks.append(_peak_of_step(case, observations.memory))
    return TimedFile(
        source=source,
        phases=tuple(_timed(case, answer)),
        remarks=(remark,) if missing else (),
        peaks=tuple(peak for peak in peaks if peak is not None),
    )


def _timed(case: str, answer: Consultation) -> Iterator[TimedPhase]:
    """The later steps of a run, then its first one, which compiles and fills caches."""
    workload, time = answer.advice.workload, answer.advice.time
    first, later = _first_and_later(answer)
    for observed, origin in ((later, MeasurementOrigin.RUN), (first, MeasurementOrigin.FIRST_STEP)):
        if observed is not None:
            yield from timed_phases(case, workload, time, observed, origin=origin)


def _first_and_later(answer: Consultation) -> tuple[ObservedRun | None, ObservedRun | None]:
    """What the first step of a run shows, and the others; a log that begins later has no first one."""
    assert answer.run is not None
    run, given, runs = answer.run.observations.run, answer.given, answer.loaded.trainer.runs
    steps = () if given.log is None else tuple(step for step in given.log.steps if step.step > 0)
    if runs is None or not steps or steps[0].step != 1:
        return None, run

    def of(*number: int) -> ObservedRun | None:
        workload = answer.advice.workload
        observed = runs.observed_run([steps[one] for one in number], workload)
        if observed is None or given.record is None:
            return observed
        return runs.with_record(given.record, observed, workload)

    later = run if run.first_step > 1 else of(*range(1, len(steps)))
    return of(0), later


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


def _peak_of_step(case: str, one: MemoryComparison) -> RecordedPeak | None:
    """The highest of all phases, where the trainer's metric alone tells it."""
    if not one.allocated_bytes:
        return None
    return RecordedPeak(
        case=case,
        phase=STEP,
        predicted_bytes=one.modelled_bytes,
        predicted_high_bytes=one.modelled_high_bytes,
        measured_bytes=one.allocated_bytes,
        predicted_reserved_bytes=one.modelled_reserved_bytes,
        measured_reserved_bytes=one.reserved_bytes,
    )
