"""The rollout part: what the engine would hold on this card, really allocated, and decoded against."""

from collections.abc import Iterator
from statistics import median

from tuner.language import _
from tuner.units import GIB
from tuner.validate.children.call import Failed
from tuner.validate.children.servers import ServedFunction
from tuner.validate.report.schema import Measurement
from tuner.validate.rollout import vllm
from tuner.validate.rollout.length import judge_lengths
from tuner.validate.rollout.measured_rollout import MeasuredRollout
from tuner.validate.rollout.plan import PlannedRollout, not_decoded, planned_rollout
from tuner.validate.rollout.settings import DecodeFigures, tiny
from tuner.validate.rollout.verdicts import judge_rollouts, judge_unseen, runnable, whole_interval
from tuner.validate.session import CALL_SHARE, NotHereError, Options, Planned, Session, Subject
from tuner.workload import RolloutEngine

WORKER = ServedFunction.in_package(__package__, "worker.residents", "measure")
WORKERS: tuple[ServedFunction, ...] = (WORKER, vllm.WORKER)
CACHE_TOLERANCE = 0.01
_FIRST_S, _FURTHER_S = 7.0, 3.0


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """One process that holds what is configured, and then what each recommendation makes of it."""
    rollout = subject.workload.generator
    if rollout.engine is RolloutEngine.TRANSFORMERS:
        raise NotHereError(
            _("transformers generates the responses, without a cache that is sized beforehand")
        )
    if options.seconds_alone:
        reason = vllm.reason_not_started(rollout.engine, options.device)
        if reason is not None:
            raise NotHereError(reason)
        return (Planned(title=vllm.title(_("as configured")), seconds=vllm.ENGINE_S),)
    further = len(runnable(subject))
    title = _("rollout: KV cache of {engine} beside what is resident").format(engine=rollout.engine.value)
    if further:
        title += _(", and with {further} recommendation(s)").format(further=further)
    return (Planned(title=title, seconds=_FIRST_S + further * _FURTHER_S),)


def run(session: Session) -> None:
    """Allocate and decode, compare with the prediction, judge what changes the rollout."""
    subject, options = session.subject, session.options
    if options.seconds_alone:
        vllm.run_engine(session, planned_rollout(subject.workload, session.machine, options))
        return
    (planned,) = plan(subject, options)
    for verdict in judge_unseen(session):
        session.judge(verdict)
    proposals = runnable(subject)
    jobs = [subject.workload, *(proposal for _, proposal in proposals)]
    rollouts = [planned_rollout(job, session.machine, options) for job in jobs]
    on_cpu = options.device == "cpu"
    works = tuple(tiny(rollout.work()) if on_cpu else rollout.work() for rollout in rollouts)
    expected = min(planned.seconds, session.left_s)  # it ends by itself, with fewer recommendations
    figures = session.call(
        WORKER, works, CALL_SHARE * session.left_s, title=planned.title, expected_s=expected
    )
    if isinstance(figures, Failed):
        session.note(_("Nothing was measured of the rollout: {figures}.").format(figures=figures.message))
        return
    others = session.machine.total_bytes - session.machine.free_bytes
    measured_rollouts = [
        MeasuredRollout(planned=rollout, figures=one, others_bytes=others)
        for rollout, one in zip(rollouts, figures, strict=False)
    ]
    _note(session, measured_rollouts[0])
    for measurement in _of_a_cpu(measured_rollouts[0]) if on_cpu else measurements(measured_rollouts[0]):
        session.add(measurement)
    for verdict in (
        *judge_rollouts(session, proposals, measured_rollouts),
        *judge_lengths(session, measured_rollouts[0]),
    ):
        session.judge(verdict)
    vllm.run_engine(session, rollouts[0])


def _note(session: Session, rollout: MeasuredRollout) -> None:
    planned, figures, workload = rollout.planned, rollout.figures, rollout.planned.workload
    if session.options.device == "cpu":
        session.note(
            _(
                "On a CPU the rollout is decoded with a tiny model: attention over blocks is right "
                "or wrong, no bytes and no seconds."
            )
        )
    ranks = workload.generator.tensor_parallel * workload.generator.pipeline_parallel
    if ranks > session.options.processes:
        session.note(
            _(
                "Rollout: {ranks} GPUs share the engine; one of them, with its share, was run alone "
                "and without their all-reduces."
            ).format(ranks=ranks)
        )
    reason = not_decoded(workload)
    if reason is not None:
        session.note(
            _("Rollout: the KV cache was allocated and the model not decoded: {reason}.").format(
                reason=reason
            )
        )
    if figures.not_decoded:
        session.note(
            _("Rollout: nothing was decoded: {not_decoded}.").format(not_decoded=figures.not_decoded)
        )
    if planned.scaled:
        session.note(
            _(
                "Rollout: {room:.1f} GiB of the GPU are there for us and {needed:.1f} GiB would be "
                "needed, so {run_blocks:,} of {blocks:,} blocks were allocated; figures are "
                "extrapolated."
            ).format(
                room=planned.room_bytes / GIB,
                needed=planned.needed_bytes / GIB,
                run_blocks=planned.run_blocks,
                blocks=planned.wanted.blocks,
            )
        )
    if figures.missing:
        session.note(_("Rollout: the GPU ran out of memory at {missing}.").format(missing=figures.missing))


def _of_a_cpu(rollout: MeasuredRollout) -> Iterator[Measurement]:
    if rollout.figures.decode is not None:
        yield _attention(rollout.figures.decode)


def measurements(rollout: MeasuredRollout) -> Iterator[Measurement]:
    """What was claimed of the rollout beside what was found."""
    if not rollout.says_nothing:
        yield from _fits(rollout)
        yield from _cache(rollout)
    if rollout.peak_bytes is not None:
        yield _peak(rollout, rollout.peak_bytes)
    if rollout.figures.decode is not None:
        yield _attention(rollout.figures.decode)
        yield from _decoded(rollout, rollout.figures.decode)


def _fits(rollout: MeasuredRollout) -> Iterator[Measurement]:
    """Only where it was claimed to fit, and tried whole."""
    planned = rollout.planned
    if planned.scaled or planned.phase.peak_bytes > planned.workload.cluster.gpu.capacity_bytes:
        return
    yield Measurement(
        name="rollout.fits",
        what=_("share of what is predicted during the rollout that could be allocated at once"),
        unit="share",
        measured=rollout.allocated_share,
        low=1.0,
        high=1.0,
        details={} if not rollout.figures.missing else {"out_of_memory_at": rollout.figures.missing},
    )


def _cache(rollout: MeasuredRollout) -> Iterator[Measurement]:
    planned, predicted = rollout.planned, rollout.planned.predicted
    cache = max(0, predicted.kv_bytes)
    card = {"card_bytes": planned.card_bytes, "counted_on_bytes": _counted_on(planned)}
    yield Measurement(
        name="rollout.kv_cache",
        what=_("KV cache that the engine's share of this card leaves, as the allocator gave it"),
        unit="bytes",
        measured=rollout.cache_bytes,
        predicted=cache,
        low=(1 - CACHE_TOLERANCE) * cache,
        high=(1 + CACHE_TOLERANCE) * cache,
        extrapolated=planned.extrapolated(),
        details={
            **card,
            "reserved_bytes": rollout.figures.cache_reserved_bytes,
            "layers": planned.wanted.layers,
        },
    )
    for name, what, measured, expected in (
        ("blocks", _("blocks of the KV cache"), rollout.blocks, planned.predicted_blocks),
        (
            "sequences",
            _("sequences of full length at once"),
            rollout.sequences,
            predicted.concurrent_sequences,
        ),
    ):
        low, high = whole_interval(expected)
        yield Measurement(
            name=f"rollout.{name}",
            what=_("{what} of one replica's GPU").format(what=what)
            if name == "blocks"
            else _("{what} in one replica").format(what=what),
            unit="blocks" if name == "blocks" else "sequences",
            measured=measured,
            predicted=expected,
            low=low,
            high=high,
            extrapolated=planned.extrapolated(),
            details={"block_tokens": planned.wanted.block_tokens, "longest_tokens": planned.longest_tokens},
        )


def _counted_on(planned: PlannedRollout) -> int:
    return planned.workload.cluster.gpu.capacity_bytes


def _peak(rollout: MeasuredRollout, measured: float) -> Measurement:
    planned = rollout.planned
    low, high = planned.phase.interval
    stood_in = {f"{name}_bytes": size for name, size in planned.residents}
    return Measurement(
        name="rollout.peak",
        what=_(
            "used on the GPU with all that is resident during the rollout, wake_up too; other "
            "processes, graphs and communicators as tensors of their predicted sizes"
        ),
        unit="bytes",
        measured=measured,
        predicted=planned.phase.peak_bytes,
        low=low,
        high=high,
        extrapolated=planned.extrapolated(),
        details={**stood_in, "others_bytes": rollout.others_bytes},
    )


def _attention(decoded: DecodeFigures) -> Measurement:
    return Measurement(
        name="rollout.attention",
        what=_("error of attention over the cache's blocks, as a share of the largest result"),
        unit="share",
        measured=decoded.attention_error,
        low=0.0,
        high=decoded.attention_limit,
    )


def _decoded(rollout: MeasuredRollout, decoded: DecodeFigures) -> Iterator[Measurement]:
    work = rollout.planned.work()
    details: dict[str, float | int | str | bool] = {
        "sequences": work.sequences,
        "context_tokens": work.context_tokens,
    }
    if decoded.workspace_bytes is not None:
        yield Measurement(
            name="rollout.decode_workspace",
            what=_("what a decoding step takes beside the cache, within what the engine keeps for its steps"),
            unit="bytes",
            measured=decoded.workspace_bytes,
            low=0,
            high=rollout.planned.predicted.activation_bytes,
            details={**details, "gathered_bytes": decoded.gathered_bytes or 0},
        )
    if decoded.seconds:
        yield Measurement(
            name="rollout.decode",
            what=_("torch's own decoding on one GPU, with blocks gathered: not the engine's speed"),
            unit="tokens/s",
            measured=work.sequences / median(decoded.seconds),
            details={**details, "steps": len(decoded.seconds), "slowest_s": max(decoded.seconds)},
        )
