"""The verl-update part: one update by verl's own worker, with its head, with ours, and with the skip."""

from collections.abc import Iterator

from tuner.language import _
from tuner.models.shape import cut_config
from tuner.units import GIB
from tuner.validate.children.call import CallFailure, Failed
from tuner.validate.children.servers import ServedFunction
from tuner.validate.session import Options, Planned, Session, Subject
from tuner.validate.training.groups import pass_seconds
from tuner.validate.training.settings import ModelSettings
from tuner.validate.verl_update.figures import update_measurements
from tuner.validate.verl_update.plan import PlannedUpdate, left_of, planned_update, seconds, settings
from tuner.validate.verl_update.settings import SHARES, EngineUpdate, Update, UpdateWork
from tuner.validate.verl_update.verdicts import head_measurements, skip_measurements

WORKER = ServedFunction.in_package(__package__, "worker.measure", "measure")
WORKERS: tuple[ServedFunction, ...] = (WORKER,)
_START_S = 25.0  # verl and what it imports, building and sharding the model, compiling
_REPETITIONS = 2  # for the time; one where there is less of it
_BOTH = (False, True)  # with verl's head, with ours


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """One engine for each head.

    Raises:
        NotHereError: verl, or something that the update needs of it, is not here.
    """
    capacity = subject.workload.cluster.gpu.capacity_bytes
    update = planned_update(
        subject, options, memory_bytes=min(capacity, options.memory_limit_bytes or capacity)
    )
    return tuple(
        Planned(title=_title(update, ours=ours), seconds=_expected_s(update, options, ours, _REPETITIONS))
        for ours in _BOTH
    )


def run(session: Session) -> None:
    """Run both engines, and record what each took and how they differ."""
    options = session.options
    update = planned_update(session.subject, options, memory_bytes=options.capacity_bytes(session.machine))
    for note in update.notes:
        session.note(note)
    wanted = sum(_expected_s(update, options, ours, _REPETITIONS) for ours in _BOTH)
    repetitions = _REPETITIONS if wanted <= session.left_s else 1
    if options.device == "cpu":
        repetitions = 0  # its seconds say nothing
    results: list[EngineUpdate] = []
    for ours in _BOTH:
        result = _called(session, update, ours=ours, repetitions=repetitions)
        if result is None:
            continue
        results.append(result)
        for measurement in update_measurements(update, result, ours=ours):
            session.add(measurement)
        if not ours:
            for measurement in skip_measurements(update, result):
                session.add(measurement)
    if len(results) == len(_BOTH):
        for measurement in head_measurements(update, *results):
            session.add(measurement)
    if options.device == "cpu" and results:
        session.note(
            _(
                "verl's update was run on a CPU: its results are right or wrong, and it has no peaks and "
                "no speed."
            )
        )


def _called(session: Session, update: PlannedUpdate, *, ours: bool, repetitions: int) -> EngineUpdate | None:
    """What one engine came to; None where it came to nothing, which is noted."""
    config = session.subject.model_config
    whole = update.layers == session.subject.workload.model.layers
    title = _title(update, ours=ours)
    planned = update.head(ours=ours)
    result = session.call(
        WORKER,
        ModelSettings(config=config if whole else cut_config(config, update.layers)),
        UpdateWork(settings=settings(planned), ours=ours, updates=tuple(_updates(ours, repetitions))),
        title=title,
        expected_s=_expected_s(update, session.options, ours, repetitions),
        world=session.options.processes,
    )
    if isinstance(result, EngineUpdate):
        return result
    assert isinstance(result, Failed)
    if result.why is CallFailure.OUT_OF_MEMORY:
        session.note(
            _("{title}: it ran out of memory, with a peak of {peak:.1f} GiB predicted.").format(
                title=title, peak=planned.predicted.peak_bytes / GIB
            )
        )
    else:
        session.note(f"{title}: {result.message.rstrip('.')}.")
    return None


def _updates(ours: bool, repetitions: int) -> Iterator[Update]:
    """With verl's head also what the skip is held to: the same update, with all responses."""
    yield Update(repetitions=repetitions)
    if ours:
        return
    yield from (Update(share=share) for share in SHARES if share)
    yield from (Update(share=share, skip=True, repetitions=repetitions) for share in SHARES)


def _expected_s(update: PlannedUpdate, options: Options, ours: bool, repetitions: int) -> float:
    planned = update.head(ours=ours)

    def once(share: float) -> float:
        left = left_of(planned, share)
        if options.device == "cpu":
            return pass_seconds(left, left.model.layers, cpu=True)
        return seconds(left).seconds

    wanted = _updates(ours, repetitions)
    first = once(0.0)
    return (
        _START_S + first + sum((1 + one.repetitions) * once(one.share if one.skip else 0.0) for one in wanted)
    )


def _title(update: PlannedUpdate, *, ours: bool) -> str:
    case = update.theirs.case
    text = (
        _("update by verl's worker with the head of tuner.inside_verl, {micro_batches} x {tokens:,} tokens")
        if ours
        else _(
            "update by verl's worker with verl's head, and with the skip, {micro_batches} x {tokens:,} tokens"
        )
    )
    return text.format(micro_batches=case.micro_batches, tokens=case.tokens)
