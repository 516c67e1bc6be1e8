"""Steps of recorded training runs beside the time model: each record read as ``tuner advise`` reads a job."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from tuner.accuracy import MeasuredRun, RunRemark, RunsFile, TimedFile, UnpredictedRecord, Utilisation
from tuner.accuracy.pairs import PredictedRun, setting_pairs, settings_of
from tuner.accuracy.recorded_runs import RecordedPeak, peak_of_step, peaks_of_phases
from tuner.accuracy.steps import passes_not_made, timed_phases
from tuner.consultation.cluster import choose_card
from tuner.consultation.job import JobReading, read_job, release_of
from tuner.consultation.observed_run import with_lengths
from tuner.consultation.premises import Premises
from tuner.errors import TunerError
from tuner.inputs.log.metrics import StepMetrics
from tuner.inputs.reading import read_given
from tuner.inputs.secrets import without_secrets
from tuner.language import _
from tuner.rules.case import figures
from tuner.timing import StepTime
from tuner.trainers.key_facts import Affects
from tuner.trainers.protocol import RunReader
from tuner.trainers.registry import trainer_named, trainer_of
from tuner.workload import Phase, Workload
from tuner.workload.observed_run import ObservedRun, PeakMemory

_STATES = "states"  # what moves between host and card, which the trainer's utilisation leaves out


class _TimedRun(Struct, frozen=True, kw_only=True):
    """One run as a file of its own, and what pairs are made of."""

    alone: TimedFile
    predicted: PredictedRun


def timed_runs(source: str, file: RunsFile) -> TimedFile:
    """The runs of a file beside their predictions; one that cannot be predicted is left out by its name."""
    read = [_timed_or_left_out(run) for run in file.runs]
    timed = [one for one in read if isinstance(one, _TimedRun)]
    left_out = tuple(one for one in read if isinstance(one, UnpredictedRecord))
    return TimedFile(
        source=source,
        phases=tuple(phase for one in timed for phase in one.alone.phases),
        utilisations=tuple(utilisation for one in timed for utilisation in one.alone.utilisations),
        left_out=left_out,
        remarks=tuple(remark for one in timed for remark in one.alone.remarks),
        unread=file.unread,
        peaks=tuple(peak for one in timed for peak in one.alone.peaks),
        pairs=tuple(setting_pairs([one.predicted for one in timed])),
    )


def _timed_or_left_out(run: MeasuredRun) -> _TimedRun | UnpredictedRecord:
    try:
        return _timed(run)
    except TunerError as error:
        return UnpredictedRecord(case=run.id, reason=without_secrets(error.message))


def _timed(run: MeasuredRun) -> _TimedRun:
    """One run beside its prediction.

    Raises:
        TunerError: it cannot be predicted, or nothing that is modelled was measured.
    """
    job = _job(run)
    workload = job.reading.workload
    time = figures(workload).time
    observed = _reader(run).observed_run([StepMetrics(step=1, values=run.measured)], workload)
    phases = () if observed is None else tuple(timed_phases(run.id, workload, time, observed))
    peaks = tuple(_peaks(run, workload, None if observed is None else observed.memory))
    if observed is None or not (phases or peaks):
        raise TunerError(_("it tells no seconds of a phase that is modelled"))
    settings = settings_of(
        _overrides(run), gpu=run.gpu, n_gpus=run.n_gpus, nnodes=run.nnodes, release=run.verl_version
    )
    return _TimedRun(
        predicted=PredictedRun(
            case=run.id, settings=settings, workload=workload, time=time, observed=observed
        ),
        alone=TimedFile(
            source=run.id,
            phases=phases,
            peaks=peaks,
            remarks=tuple(_remarks(run.id, job, time, observed)),
            utilisations=tuple(_utilisation(run, workload, time)),
        ),
    )


def _remarks(case: str, job: JobReading, time: StepTime, observed: ObservedRun) -> Iterator[RunRemark]:
    """Keys that the release does not have, passes that were not made, and what the prediction leaves out."""
    unknown = {one.key for one in job.loaded.settings.unknown}
    if unknown:
        for finding in job.loaded.check(job.reading.workload):
            if finding.keys and unknown.issuperset(finding.keys):
                yield RunRemark(case=case, text=without_secrets(finding.message))
    missing = passes_not_made(time, observed)
    if missing:
        text = _("no timer of the run has {phases}: the predicted step is without")
        yield RunRemark(case=case, text=text.format(phases=", ".join(phase.value for phase in missing)))
    for part in job.left_out:
        if part.affects is not Affects.HOST:
            text = _("the prediction leaves out {name} ({key}={value})")
            told = text.format(name=part.name, key=part.key, value=part.value)
            yield RunRemark(case=case, text=without_secrets(told))


def _peaks(run: MeasuredRun, workload: Workload, memory: PeakMemory | None) -> Iterator[RecordedPeak]:
    """Bytes of the phases that the run tells of, and of the step where the trainer's metric does."""
    if run.peaks:
        told: dict[Phase, tuple[int, int | None]] = {
            phase: (peak.allocated_bytes, peak.reserved_bytes) for phase, peak in run.peaks.items()
        }
        yield from peaks_of_phases(
            run.id, figures(workload), told, holds_engine=memory is not None and memory.holds_engine
        )
    step = None if memory is None else peak_of_step(run.id, figures(workload), memory)
    if step is not None:
        yield step


def _overrides(run: MeasuredRun) -> tuple[str, ...]:
    """The settings of a run, with those that its note names."""
    return run.overrides + _reader(run).noted_settings(run.note or "")


def _job(run: MeasuredRun) -> JobReading:
    """The job of a run, with the lengths that it had: the means, and what its metrics tell beside them.

    Raises:
        TunerError: nothing is known of its trainer, its card or its model, or its settings cannot be used.
    """
    reader = _reader(run)
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
    overrides = _overrides(run)
    given = read_given(overrides[0], overrides[1:])
    read_by = trainer_of(given.document, given.arguments, program=given.program)
    if read_by.name != run.framework:
        text = _("its settings are those of {trainer}, and not of {framework}")
        raise TunerError(text.format(trainer=read_by.name, framework=run.framework))
    release = release_of(given, premises)

    def read(premises: Premises) -> JobReading:
        return read_job(given, premises, card=choose_card(premises), release=release)

    workload = read(premises).reading.workload
    engine = reader.engine_version_of(run.verl_version, workload)
    return read(replace(_with_lengths(run, premises, workload), engine_version=engine))


def _with_lengths(run: MeasuredRun, premises: Premises, workload: Workload) -> Premises:
    """The premises with the longest response and the share of kept groups that the metrics tell."""
    observed = _reader(run).observed_run([StepMetrics(step=1, values=run.measured)], workload)
    if observed is None:
        return premises
    observed = replace(
        observed, mean_prompt_tokens=run.prompt_length_mean, mean_response_tokens=run.response_length_mean
    )
    told, _names = with_lengths(
        replace(premises, mean_prompt=None, mean_response=None), observed, workload.batch
    )
    return replace(
        told,
        mean_prompt=told.mean_prompt or premises.mean_prompt,
        mean_response=told.mean_response or premises.mean_response,
    )


def _reader(run: MeasuredRun) -> RunReader:
    """What reads the metrics of the run's trainer.

    Raises:
        TunerError: no such trainer is known, or nothing reads its runs.
    """
    reader = trainer_named(run.framework).runs
    if reader is None:
        raise TunerError(_("nothing reads the runs of {trainer}").format(trainer=run.framework))
    return reader


def _utilisation(run: MeasuredRun, workload: Workload, time: StepTime) -> Iterator[Utilisation]:
    printed = _reader(run).printed_utilisation(run.measured)
    update = time.phase(Phase.UPDATE_ACTOR)
    if printed is None or update is None:
        return
    computing = update.seconds - dict(update.parts).get(_STATES, 0.0)
    predicted = _reader(run).utilisation(workload, computing)
    if predicted is not None:
        yield Utilisation(case=run.id, predicted=predicted, printed=printed)
