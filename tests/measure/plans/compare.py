"""One launch: what advice makes of it, what a plan does, and whether that is what the trainer reads back."""

import time
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from tests.measure.plans.launches import Launch
from tests.measure.plans.published import Published, published
from tuner.advise import Advice, advise
from tuner.advise.reading import Reading
from tuner.advise.usual_host import may_lack_host
from tuner.advise.verdicts import Verdict
from tuner.consultation.consult import job_of
from tuner.consultation.job import JobReading
from tuner.consultation.premises import Premises
from tuner.errors import TunerError
from tuner.plan.answer import ClusterPlan, PlannedSetting
from tuner.plan.planning import PlanRequest, plan

_MODEL = "model.path"  # in what is said of a model that is not here
_STARTING = (Verdict.FITS, Verdict.WILL_NOT_START)  # the latter for what no override lifts
SAME = 1e-6  # share of seconds that two sums of the same may differ by


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one launch."""

    launch: str
    release: str = ""
    model: str = ""  # in place of a folder of whoever runs the launch
    gpus: str = ""
    unread: str = ""  # why it cannot be planned
    verdict: str = ""  # of advice
    own_s: float | None = None  # of the job as it is, where it starts and fits for certain
    block_s: float | None = None
    plan_s: float | None = None
    block: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    looked_at: int = 0
    size: int = 0
    whole: bool = False
    took_s: float = 0.0  # of one core
    failures: tuple[str, ...] = ()
    published: Published | None = None


def compared(launch: Launch, *, layouts: bool = False) -> Row:
    """The plan of a launch beside its advice.

    Args:
        launch: that is planned on its own cards.
        layouts: whether the best of the published layout is asked for as well.
    """
    try:
        job, premises, model = _read(launch)
    except TunerError as error:
        said = str(error)
        return Row(launch=launch.name, unread=said.replace(launch.folder, "") if launch.folder else said)
    reading = job.reading
    workload, release = reading.workload, reading.workload.release.version
    if workload.unmodelled_engine or job.given.missing is not None or job.loaded.validates_only:
        return Row(launch=launch.name, release=release, unread="no plan can be made")
    begun = time.process_time()
    wanted = PlanRequest(headroom=premises.headroom)
    planned = plan(reading, wanted)
    took_s = time.process_time() - begun
    advice = advise(reading, headroom=premises.headroom)
    best, block = planned.best, advice.combination
    cluster = workload.cluster
    return Row(
        launch=launch.name,
        release=release,
        model=model,
        gpus=f"{cluster.gpus} x {cluster.gpu.name}",
        verdict=advice.verdict.value,
        own_s=_own_seconds(advice),
        block_s=None if block is None else block.time.seconds,
        plan_s=None if best is None else best.time.seconds,
        block=() if block is None else block.overrides,
        plan=() if best is None else best.overrides,
        looked_at=planned.looked_at,
        size=planned.size,
        whole=planned.whole,
        took_s=round(took_s, 2),
        failures=tuple(_failures(reading, advice, planned)),
        published=published(reading, planned, wanted) if layouts else None,
    )


def _read(launch: Launch) -> tuple[JobReading, Premises, str]:
    """The job of a launch, and the model that it has where its own is a folder that is not here.

    Raises:
        TunerError: it cannot be read with that either.
    """
    try:
        return *job_of(launch.source, launch.words, launch.premises), ""
    except TunerError as error:
        if _MODEL not in str(error):
            raise
        usual = replace(launch.premises, model=launch.usual_model)
        return *job_of(launch.source, launch.words, usual), launch.usual_model


def _own_seconds(advice: Advice) -> float | None:
    return advice.time.seconds if not advice.refusals and _fits(advice) else None


def _fits(advice: Advice) -> bool:
    """Whether a job is sure to fit, also on nodes with as much memory as is usual."""
    lacks_host = may_lack_host(advice.estimate, advice.workload.cluster.gpus_per_node)
    return advice.memory_verdict is Verdict.FITS and not lacks_host


def _failures(reading: Reading, advice: Advice, planned: ClusterPlan) -> Iterator[str]:
    """What a plan may not be: slower than advice, or other than it says when it is read again."""
    bounds = list(_seconds_of_advice(advice))
    if bounds and planned.best is None:
        yield "nothing is planned where advice fits"
    elif planned.best is not None and any(planned.best.time.seconds > one * (1 + SAME) for one in bounds):
        yield "slower than advice"
    for setting in planned.settings:
        yield from _read_again(reading, setting, advice)


def _seconds_of_advice(advice: Advice) -> Iterator[float]:
    """Seconds of the job as it is and with the block, where these start and fit for certain."""
    own = _own_seconds(advice)
    if own is not None:
        yield own
    block = advice.combination
    if block is None or not block.estimate.fits_for_certain() or block.verdict not in _STARTING:
        return
    if not may_lack_host(block.estimate, block.workload.cluster.gpus_per_node):
        yield block.time.seconds


def _read_again(reading: Reading, setting: PlannedSetting, advice: Advice) -> Iterator[str]:
    """What is wrong with a setting when its lines are read again behind those of the launch."""
    try:
        after = reading.adding(setting.overrides) if setting.overrides else reading
    except ValueError as error:
        yield f"cannot be read again: {error}"
        return
    again = advise(after, headroom=advice.headroom, block=False)
    # What nothing lifts, in a file that is not here or by a copy of the trainer, is no plan's to lift.
    stays = {one.finding.rule.code for one in advice.refusals if not one.overrides}
    refused = {one.finding.rule.code for one in again.refusals} - stays
    if refused:
        yield f"is refused when read again: {', '.join(sorted(refused))}"
    elif not _fits(again):
        yield f"is not sure to fit when read again: {again.memory_verdict.value}"
    elif again.estimate.worst.peak_bytes != setting.estimate.worst.peak_bytes:
        yield "has another peak when read again"
    elif abs(again.time.seconds - setting.time.seconds) > SAME * setting.time.seconds:
        yield "takes other seconds when read again"
