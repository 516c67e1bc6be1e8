"""What the record of a run says beside the metrics that verl logs: seconds and memory of every phase.

Phases have the names of :class:`~tuner.workload.Phase` there already, so that no name of verl is read here.
"""

from statistics import median

from msgspec.structs import replace

from tuner.inputs.record.peaks import lengths_by_step, phase_peaks, seconds_by_step
from tuner.inputs.record.read import RunRecord
from tuner.language import N_
from tuner.trainers.verl.observed_steps import warm_steps
from tuner.trainers.verl.step_metrics import holds_engine
from tuner.workload import Phase, Workload
from tuner.workload.observed_run import ObservedRun, PeakMemory, PhasePeak

_TAKEN = N_("in each phase that was recorded, the highest of all ranks")


def with_record(record: RunRecord, observed: ObservedRun | None, workload: Workload) -> ObservedRun | None:
    """What a run reports, with what its workers recorded; None where there is neither.

    Args:
        record: of the workers.
        observed: what the metrics of the trainer say; None where it logged none.
        workload: the job.
    """
    peaks = phase_peaks(record)
    run = observed or _of_workers(record)
    if run is None:
        return None
    timed = dict(run.seconds)
    further = _medians(record, range(run.first_step, run.last_step + 1))
    if run.holds_sync:
        further.pop(Phase.UPDATE_WEIGHTS, None)  # the trainer's timer of generation has it already
    seconds = further | timed
    return replace(
        run,
        seconds=tuple((phase, seconds[phase]) for phase in Phase if phase in seconds),
        peaks=peaks,
        memory=run.memory or _memory(peaks, workload),
    )


def _of_workers(record: RunRecord) -> ObservedRun | None:
    """The steps as the workers saw them, where the trainer's process recorded nothing."""
    steps = [step for step in sorted(seconds_by_step(record)) if step > 0]
    warm = warm_steps(steps)
    if not warm:
        return None
    lengths = [pair for step, pair in lengths_by_step(record).items() if step in warm]
    return ObservedRun(
        first_step=warm[0],
        last_step=warm[-1],
        steps=len(warm),
        mean_prompt_tokens=median(whole - response for whole, response in lengths) if lengths else None,
        mean_response_tokens=median(response for _whole, response in lengths) if lengths else None,
    )


def _medians(record: RunRecord, steps: range) -> dict[Phase, float]:
    rows = [row for step, row in seconds_by_step(record).items() if step in steps]
    return {phase: median([row[phase] for row in rows if phase in row]) for row in rows for phase in row}


def _memory(peaks: tuple[PhasePeak, ...], workload: Workload) -> PeakMemory | None:
    if not peaks:
        return None
    return PeakMemory(
        allocated_bytes=max(peak.allocated_bytes for peak in peaks),
        reserved_bytes=max(peak.reserved_bytes for peak in peaks),
        holds_engine=holds_engine(workload),
        taken=_TAKEN,
    )
