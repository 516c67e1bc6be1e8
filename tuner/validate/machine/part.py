"""The machine part: memory of the card, what a bare process holds of it, and the rates that it reaches."""

from msgspec import structs

from tuner.hardware import Gpu, MeasuredGpu
from tuner.language import _
from tuner.memory.process import overhead
from tuner.memory.process.overhead import CUBLAS_WORKSPACES
from tuner.timing import assumptions as assume
from tuner.validate.children.call import Failed
from tuner.validate.children.devices import UNUSED_BYTES
from tuner.validate.children.servers import ServedFunction, Server
from tuner.validate.machine.families import factors, operator_sizes
from tuner.validate.machine.readings import MachineReadings, ProcessBytes, Rate
from tuner.validate.report.profile import PROFILE_FIGURES, TOTAL
from tuner.validate.report.schema import Measurement
from tuner.validate.session import NotHereError, Options, Planned, Session, Subject

WORKER = ServedFunction.in_package(__package__, "worker.card", "measure")
OPERATORS = ServedFunction.in_package(__package__, "worker.operators", "measure", Server.MODELS)
WORKERS: tuple[ServedFunction, ...] = (WORKER, OPERATORS)

MEMORY_TOLERANCE = 0.01  # two cards of one kind report the same total
RATE_TOLERANCE = 0.1  # of a rate that was measured before: clocks and temperature move it


def _planned() -> Planned:
    return Planned(title=_("rates of the GPU, and what a bare process holds"), seconds=7.0)


def _planned_operators() -> Planned:
    return Planned(title=_("rates of a few operators, by family"), seconds=6.0)


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """Two processes on one GPU, one after the other."""
    if options.device == "cpu":
        raise NotHereError(_("no speed is measured on a CPU, and no driver keeps memory of it"))
    return (_planned(), _planned_operators())


def run(session: Session) -> None:
    """Measure and compare with what the estimates go by."""
    readings = session.call(WORKER, title=_planned().title, expected_s=_planned().seconds)
    if isinstance(readings, Failed):
        session.note(_("The machine's figures are missing: {readings}.").format(readings=readings.message))
        return
    gpu = session.subject.workload.cluster.gpu
    others = session.machine.total_bytes - session.machine.free_bytes
    for measurement in (
        *_memory(readings, gpu),
        *_process(readings.held, gpu, others),
        *_rates(readings, gpu),
    ):
        session.add(measurement)
    _add_factors(session, readings, gpu)


def _add_factors(session: Session, readings: MachineReadings, gpu: Gpu) -> None:
    """What families of operators reach, over what is modelled with the rates that were just measured."""
    sizes, planned = operator_sizes(session.subject.workload.model), _planned_operators()
    rates = session.call(OPERATORS, sizes, title=planned.title, expected_s=planned.seconds)
    if isinstance(rates, Failed):
        session.note(_("The rates of operators are missing: {rates}.").format(rates=rates.message))
        return
    for measurement in factors(rates, sizes, _as_measured(gpu, readings)):
        session.add(measurement)


def _as_measured(gpu: Gpu, readings: MachineReadings) -> Gpu:
    """The card with the rates that were read, and nothing else changed."""
    before = gpu.measured or MeasuredGpu(date="", versions=())
    return structs.replace(
        gpu,
        measured=structs.replace(
            before,
            dense_bf16_flop_per_s=readings.product.per_s,
            memory_bytes_per_s=readings.memory.per_s,
        ),
    )


def _memory(readings: MachineReadings, gpu: Gpu) -> list[Measurement]:
    usable = None if gpu.measured is None else gpu.measured.usable_bytes
    measured = [
        Measurement(
            name=PROFILE_FIGURES["usable_bytes"],
            what=_("memory of the card that CUDA hands out"),
            unit="bytes",
            measured=readings.usable_bytes,
            predicted=usable,
            tolerance=None if usable is None else MEMORY_TOLERANCE,
            details={"counted_on_bytes": gpu.capacity_bytes},
        )
    ]
    if readings.driver_total_bytes is not None:
        total = Measurement(
            name=TOTAL,
            what=_("memory of the card, and what the profile {gpu} says").format(gpu=gpu.name),
            unit="bytes",
            measured=readings.driver_total_bytes,
            predicted=gpu.memory_bytes,
            tolerance=MEMORY_TOLERANCE,
        )
        measured.insert(0, total)
    return measured


def _process(held: ProcessBytes, gpu: Gpu, others: int) -> list[Measurement]:
    """Beside the allocator, whatever others use taken off; no claim is judged beside them."""
    context = overhead.context(gpu)
    alone = others <= UNUSED_BYTES
    steps = {
        "first_tensor_bytes": held.first_tensor - others,
        "matrix_product_bytes": held.matrix_product - held.first_tensor,
        "backward_bytes": held.backward - held.matrix_product,
        "attention_bytes": held.attention - held.backward,
    }
    return [
        Measurement(
            name=PROFILE_FIGURES["context_bytes"],
            what=_("what a process that trains holds beside PyTorch's allocator, without communicators"),
            unit="bytes",
            measured=max(0, held.attention - others),
            predicted=context.typical,
            low=context.low if alone else None,
            high=context.high if alone else None,
            details={**steps, "others_bytes": others},
        ),
        Measurement(
            name="process.workspaces",
            what=_("workspaces of cuBLAS, one of the forward and one of the backward pass"),
            unit="bytes",
            measured=held.workspaces,
            predicted=CUBLAS_WORKSPACES.typical,
            low=CUBLAS_WORKSPACES.low,
            high=CUBLAS_WORKSPACES.high,
        ),
    ]


def _rates(readings: MachineReadings, gpu: Gpu) -> list[Measurement]:
    before = gpu.measured
    slower = min(readings.to_device, readings.to_host, key=lambda rate: rate.per_s)
    return [
        rate(
            "dense_bf16_flop_per_s",
            _("products of bf16 matrices of {size:,} rows, for a second on end").format(
                size=readings.product.size
            ),
            readings.product.per_s,
            before=None if before is None else before.dense_bf16_flop_per_s,
            peak=gpu.dense_bf16_flop_per_s,
            assumed=assume.LARGE_PRODUCT_SHARE,
            details=_spread(readings.product),
        ),
        rate(
            "memory_bytes_per_s",
            _("copies on the card, bytes read and written"),
            readings.memory.per_s,
            before=None if before is None else before.memory_bytes_per_s,
            peak=gpu.memory_bytes_per_s,
            assumed=assume.MEMORY_SHARE,
            details=_spread(readings.memory),
        ),
        rate(
            "host_bytes_per_s",
            _("copies between the card and page-locked memory of the host, the slower way"),
            slower.per_s,
            before=None if before is None else before.host_bytes_per_s,
            peak=gpu.host_bytes_per_s,
            assumed=assume.PINNED_SHARE,
            details={
                "to_device_per_s": readings.to_device.per_s,
                "to_host_per_s": readings.to_host.per_s,
                **_spread(slower),
            },
        ),
    ]


def _spread(reached: Rate) -> dict[str, float | int | str | bool]:
    return {"slowest_per_s": reached.slowest_per_s, "repetitions": reached.repetitions}


def rate(
    figure: str,
    what: str,
    measured: float,
    *,
    before: float | None,
    peak: float,
    assumed: float,
    details: dict[str, float | int | str | bool],
) -> Measurement:
    """A rate beside the data sheet's, which claims nothing, or beside an earlier measurement, which does.

    Args:
        figure: field of :class:`~tuner.hardware.MeasuredGpu`.
        what: a line to read.
        measured: per second.
        before: what the profile has of an earlier measurement.
        peak: of the data sheet.
        assumed: share of the peak that the time model takes where nothing was measured.
        details: further figures.
    """
    return Measurement(
        name=PROFILE_FIGURES[figure],
        what=what,
        unit="flop/s" if figure == "dense_bf16_flop_per_s" else "bytes/s",
        measured=measured,
        predicted=before,
        tolerance=None if before is None else RATE_TOLERANCE,
        details={
            "datasheet_per_s": peak,
            "share_of_datasheet": measured / peak,
            "assumed_share": assumed,
            **details,
        },
    )
