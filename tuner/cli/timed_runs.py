"""Steps of recorded training runs beside the time model: each record read as ``tuner advise`` reads a job."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from tuner.accuracy import (
    LEAST_S,
    MeasuredRun,
    MeasurementOrigin,
    TimedFile,
    TimedPhase,
    UnpredictedRecord,
    Utilisation,
)
from tuner.accuracy.recorded_runs import RecordedPeak
from tuner.advise.observations import PeakComparison
from tuner.consultation.cluster import choose_card
from tuner.consultation.consult import consult
from tuner.consultation.job import read_job, release_of
from tuner.consultation.premises import Premises
from tuner.errors import TunerError
from tuner.inputs.log.metrics import StepMetrics
from tuner.inputs.reading import read_given
from tuner.inputs.record.read import read_record
from tuner.language import _
from tuner.rules.case import figures
from tuner.timing import PhaseTime, StepTime, interval
from tuner.trainers.protocol import RunReader
from tuner.trainers.registry import trainer_named
from tuner.workload import Phase, Workload
from tuner.workload.observed_run import ObservedRun

_STEP = "step"
_STATES = "states"  # what moves between host and card, which the trainer's utilisation leaves out


def timed_runs(source: str, runs: Sequence[MeasuredRun]) -> TimedFile:
    """The runs of a file beside their predictions; one that cannot be predicted is left out by its name."""
    phases: list[TimedPhase] = []
    utilisations: list[Utilisation] = []
    left_out: list[UnpredictedRecord] = []
    for run in runs:
        try:
            workload = _workload(run)
            time = figures(workload).time
        except TunerError as error:
            left_out.append(UnpredictedRecord(case=run.id, reason=error.message))
            continue
        observed = _reader(run).observed_run([StepMetrics(step=1, values=run.measured)], workload)
        timed = [] if observed is None else list(timed_phases(run.id, workload, time, observed))
        if not timed:
            left_out.append(
                UnpredictedRecord(case=run.id, reason=_("it tells no seconds of a phase that is modelled"))
            )
            continue
        phases += timed
        utilisations += _utilisation(run, workload, time)
    return TimedFile(
        source=source,
        phases=tuple(phases),
        utilisations=tuple(utilisations),
        left_out=tuple(left_out),
    )


def _workload(run: MeasuredRun) -> Workload:
    """The job of a run, with the mean lengths that it had.

    Raises:
        TunerError: nothing is known of its card or its model, or its settings cannot be used.
    """
    if run.gpu is None:
        raise TunerError(_("nobody says which card it ran on"))
    premises = Premises(
        verl_version=run.verl_version,
        gpu=run.gpu,
        gpus_per_node=run.n_gpus,
        nodes=run.nnodes,
        mean_prompt=max(1, round(run.prompt_length_mean)),
        mean_response=max(1, round(run.response_length_mean)),
    )
    reader = _reader(run)
    overrides = run.overrides + reader.noted_settings(run.note or "")
    given = read_given(overrides[0], overrides[1:])
    release = release_of(given, premises)

    def read(premises: Premises) -> Workload:
        return read_job(given, premises, card=choose_card(premises), release=release).reading.workload

    workload = read(premises)
    engine = reader.engine_version_of(run.verl_version, workload)
    return workload if engine is None else read(replace(premises, engine_version=engine))


def _reader(run: MeasuredRun) -> RunReader:
    """What reads the metrics of the run's trainer.

    Raises:
        TunerError: no such trainer is known, or nothing reads its runs.
    """
    reader = trainer_named(run.framework).runs
    if reader is None:
        raise TunerError(_("nothing reads the runs of {trainer}").format(trainer=run.framework))
    return reader


def timed_phases(
    case: str, workload: Workload, time: StepTime, observed: ObservedRun
) -> Iterator[TimedPhase]:
    """Each phase that has both, and the whole step.

    Where the trainer's timer of the rollout holds the handing over of new weights, so does the prediction.
    """
    predicted: dict[Phase, tuple[PhaseTime, ...]] = {phase.phase: (phase,) for phase in time.phases}
    if observed.holds_sync and Phase.ROLLOUT in predicted:
        predicted[Phase.ROLLOUT] += predicted.get(Phase.UPDATE_WEIGHTS, ())
    pairs: list[tuple[str, tuple[PhaseTime, ...], float | None]] = [
        *((phase.value, predicted.get(phase, ()), seconds) for phase, seconds in observed.seconds),
        (_STEP, time.phases, observed.step_seconds),
    ]
    for name, phases, measured in pairs:
        modelled = interval(phases, workload.cluster)
        if modelled.seconds and measured is not None and measured >= LEAST_S:
            yield TimedPhase(
                case=case,
                phase=name,
                origin=MeasurementOrigin.RUN,
                model=workload.model.name,
                gpu=workload.cluster.gpu.name,
                gpus=workload.cluster.gpus,
                predicted_s=modelled.seconds,
                low_s=modelled.low_s,
                high_s=modelled.high_s,
                measured_s=measured,
            )


def _utilisation(run: MeasuredRun, workload: Workload, time: StepTime) -> Iterator[Utilisation]:
    printed = _reader(run).printed_utilisation(run.measured)
    update = time.phase(Phase.UPDATE_ACTOR)
    if printed is None or update is None:
        return
    computing = update.seconds - dict(update.parts).get(_STATES, 0.0)
    predicted = _reader(run).utilisation(workload, computing)
    if predicted is not None:
        yield Utilisation(case=run.id, predicted=predicted, printed=printed)


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
    advice, observations = answer.advice, answer.run.observations
    phases = tuple(timed_phases(case, advice.workload, advice.time, observations.run))
    peaks = (_peak(case, one) for one in observations.peaks)
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
