"""The collectives part: what NCCL holds, what links give, and what prefetching and Ulysses gain."""

from collections.abc import Iterator

from tuner import batching
from tuner.hardware import Gpu
from tuner.language import N_, _
from tuner.memory.fsdp.order import UnitOrder
from tuner.memory.process import overhead
from tuner.memory.process.constant import Constant
from tuner.memory.process.overhead import NCCL_CODE, NCCL_EXCHANGE, NCCL_KERNEL
from tuner.timing import assumptions as assume
from tuner.timing.rates import link_bytes_per_s
from tuner.validate.children.call import Failed
from tuner.validate.children.servers import ServedFunction
from tuner.validate.collectives import switches
from tuner.validate.collectives.readings import CollectiveReadings, CommunicatorBytes, Exchanged
from tuner.validate.machine.part import rate
from tuner.validate.report.schema import Measurement
from tuner.validate.session import NotHereError, Options, Planned, Session, Subject

WORKER = ServedFunction.in_package(__package__, "worker", "measure")
WORKERS: tuple[ServedFunction, ...] = (WORKER, switches.WORKER)
_BYTES_AT_ONCE = 16  # per parameter: weights and gradients, on both sides of their collectives
# On a CPU, where nothing but the values is looked at.
_TINY_UNITS = {"layer": 4_097, "root": 1_023}
_TINY_TOKENS = 5
_EXCHANGE = "ulysses.exchange"
_WHAT = {
    "all_gather.layer": N_("gathering the weights of a decoder layer"),
    "all_gather.root": N_("gathering the unit of the output projection"),
    "reduce_scatter.layer": N_("reducing the gradients of a decoder layer"),
    "reduce_scatter.root": N_("reducing the gradients of the unit of the output projection"),
    _EXCHANGE: N_("Ulysses: a sequence's queries from all heads to a share of them"),
}


def _planned() -> Planned:
    return Planned(title=_("collectives at this model's sizes"), seconds=6.0)


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """One process per GPU for the collectives, and one for training with and without switches."""
    if options.processes < 2:
        raise NotHereError(_("one process takes part: nothing is exchanged"))
    return (_planned(), *switches.plan(subject, options))


def run(session: Session) -> None:
    """Measure, and compare with the constants of the memory model and of the time model."""
    processes = session.options.processes
    readings = session.call(
        WORKER,
        _units(session),
        _heads(session),
        title=_planned().title,
        expected_s=_planned().seconds,
        world=processes,
    )
    if isinstance(readings, Failed):
        session.note(
            _("The figures of the collectives are missing: {readings}.").format(readings=readings.message)
        )
    else:
        for measurement in measurements(readings, session.subject.workload.cluster.gpu, processes):
            session.add(measurement)
    switches.run(session)


def _units(session: Session) -> dict[str, int]:
    """Parameters of a layer, and of the unit that holds the output projection, as far as they fit."""
    options, workload = session.options, session.subject.workload
    if options.device == "cpu":
        return _TINY_UNITS
    units = UnitOrder(workload.model, workload.actor.engine)
    wanted = {"layer": max(units.layers), "root": units.head}
    most = (options.memory_limit_bytes or session.machine.free_bytes) // _BYTES_AT_ONCE
    for name, parameters in wanted.items():
        if parameters > most:
            session.note(
                _(
                    "Collectives of the {name} were run with {most:,} of its {parameters:,} parameters: "
                    "no more fit."
                ).format(name=name, most=most, parameters=parameters)
            )
    return {name: min(parameters, most) for name, parameters in wanted.items()}


def _heads(session: Session) -> tuple[int, int, int] | None:
    """Tokens of the update on one GPU, heads, and the width of one; None where they cannot be shared out."""
    options, workload = session.options, session.subject.workload
    model = workload.model
    if model.heads % options.processes:
        session.note(
            _("Ulysses' exchange was not run: {processes} GPUs cannot share {heads} heads.").format(
                processes=options.processes, heads=model.heads
            )
        )
        return None
    tokens = batching.micro_batch_tokens(workload.batch, workload.actor_update)
    return _TINY_TOKENS if options.device == "cpu" else tokens, model.heads, model.head_dim


def measurements(readings: CollectiveReadings, gpu: Gpu, ranks: int) -> Iterator[Measurement]:
    """What was read beside what the models go by.

    Args:
        readings: by the worker.
        gpu: what the predictions are made for.
        ranks: GPUs that took part.
    """
    if readings.held is not None:
        yield from _communicator_measurements(readings.held, gpu, ranks)
    if readings.latency_s is not None:
        yield Measurement(
            name="collective.start",
            what=_("a collective of next to no bytes"),
            unit="seconds",
            measured=readings.latency_s,
            predicted=assume.COLLECTIVE_S,
        )
    named = [(f"all_gather.{name}", one) for name, one in readings.gathers.items()]
    named += [(f"reduce_scatter.{name}", one) for name, one in readings.scatters.items()]
    named += [(_EXCHANGE, readings.exchange)] if readings.exchange is not None else []
    for name, one in named:
        yield from _bandwidth(name, one, gpu, ranks)
    yield from _link(readings, gpu, ranks)
    yield _wrong("collectives.wrong", _("values that a collective left wrong"), [one for _, one in named])


def _communicator_measurements(held: CommunicatorBytes, gpu: Gpu, ranks: int) -> Iterator[Measurement]:
    communicator, peer = overhead.communicator(gpu), overhead.peer(gpu)
    for name, what, measured, parts in (
        (
            "nccl.first",
            _("NCCL's code, its first kernel and the first communicator"),
            held.first,
            ((NCCL_CODE, 1), (NCCL_KERNEL, 1), (communicator, 1)),
        ),
        (
            "nccl.exchange",
            _("what sending to and receiving from all the others adds"),
            held.exchange,
            ((NCCL_EXCHANGE, 1), (peer, ranks - 1)),
        ),
        ("nccl.further", _("a further communicator of all the GPUs"), held.further, ((communicator, 1),)),
    ):
        low, typical, high = _sum(parts)
        yield Measurement(
            name=name,
            what=what,
            unit="bytes",
            measured=measured,
            predicted=typical,
            low=low,
            high=high,
            details={"gpus": ranks},
        )


def _sum(parts: tuple[tuple[Constant, int], ...]) -> tuple[int, int, int]:
    return (
        sum(count * part.low for part, count in parts),
        sum(count * part.typical for part, count in parts),
        sum(count * part.high for part, count in parts),
    )


def _moved(one: Exchanged, ranks: int, *, shared: bool = False) -> float:
    """Bytes that each GPU sends; ``shared``: of its own share alone, as when heads are exchanged."""
    return one.whole_bytes * (ranks - 1) / ranks / (ranks if shared else 1)


def _bandwidth(name: str, one: Exchanged, gpu: Gpu, ranks: int) -> Iterator[Measurement]:
    """Bus bandwidth, which is compared with that of the link and claims nothing."""
    if one.seconds is None:
        return
    moved = _moved(one, ranks, shared=name == _EXCHANGE)
    yield Measurement(
        name=name,
        what=_(_WHAT[name]),
        unit="bytes/s",
        measured=moved / one.seconds,
        details={
            "whole_bytes": one.whole_bytes,
            "seconds": one.seconds,
            "gpus": ranks,
            "share_of_datasheet": moved / one.seconds / gpu.link_bytes_per_s,
            "assumed_per_s": link_bytes_per_s(gpu),
        },
    )


def _link(readings: CollectiveReadings, gpu: Gpu, ranks: int) -> Iterator[Measurement]:
    """The rate of a layer's gather without its start, which is what the time model multiplies with."""
    layer = readings.gathers["layer"]
    if layer.seconds is None or readings.latency_s is None or layer.seconds <= readings.latency_s:
        return
    yield rate(
        "link_bytes_per_s",
        _("bandwidth between GPUs when a decoder layer is gathered, the start of the collective taken off"),
        _moved(layer, ranks) / (layer.seconds - readings.latency_s),
        before=None if gpu.measured is None else gpu.measured.link_bytes_per_s,
        peak=gpu.link_bytes_per_s,
        assumed=assume.LINK_SHARE,
        details={"gpus": ranks, "whole_bytes": layer.whole_bytes},
    )


def _wrong(name: str, what: str, exchanged: list[Exchanged]) -> Measurement:
    """The most of any collective; the claim is that there are none."""
    return Measurement(
        name=name,
        what=what,
        unit="share",
        measured=max(one.wrong_share for one in exchanged),
        predicted=0.0,
        low=0.0,
        high=0.0,
        details={"collectives": len(exchanged)},
    )
