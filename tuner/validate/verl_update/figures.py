"""What an update of verl's worker took, as figures of the report."""

from collections.abc import Iterator
from statistics import median

from tuner.language import _
from tuner.validate.report.schema import Measurement
from tuner.validate.report.verdicts import PEAK_TOLERANCE, reserved
from tuner.validate.training.passes import PlannedPass
from tuner.validate.verl_update.plan import PlannedUpdate, seconds
from tuner.validate.verl_update.settings import EngineUpdate, UpdateFigures
from tuner.workload.head import head_label, head_name


def update_measurements(update: PlannedUpdate, result: EngineUpdate, *, ours: bool) -> Iterator[Measurement]:
    """Peaks and seconds of the whole update with one of the heads."""
    name = "tuner_head" if ours else "verl_head"
    head = _("the head of tuner.inside_verl") if ours else _verls(update.theirs)
    yield from compared_measurements(name, head, update.head(ours=ours), result.of())


def _verls(planned: PlannedPass) -> str:
    head = head_name(planned.workload.actor.head, entropy=planned.case.calculate_entropy)
    return _("verl's head, {head}").format(head=head_label(head))


def compared_measurements(
    name: str, what: str, planned: PlannedPass, one: UpdateFigures
) -> Iterator[Measurement]:
    """Peaks of allocated and of reserved bytes and seconds of an update, each beside its prediction.

    Args:
        name: of the update among the figures.
        what: the same to read.
        planned: what predicts it.
        one: what was measured of it.
    """
    figures, case = one.figures, planned.case
    if figures.allocated_before_bytes is not None:
        compared = planned.compared(figures)
        details: dict[str, float | int | str | bool] = {
            "moment": compared.moment,
            "layers": planned.model.layers,
        }
        yield Measurement(
            name=f"verl_update.{name}.peak",
            what=_("{what}: peak, {micro_batches} x {tokens:,} tokens, {engine}").format(
                what=what, micro_batches=case.micro_batches, tokens=case.tokens, engine=figures.engine
            ),
            unit="bytes",
            measured=compared.measured_peak,
            predicted=compared.predicted_peak,
            tolerance=PEAK_TOLERANCE,
            details=details,
        )
        if figures.peak_reserved_bytes is not None:
            held = _("{what}: most that the allocator holds").format(what=what)
            yield reserved(f"verl_update.{name}.reserved", held, figures.peak_reserved_bytes, compared)
    if has_seconds(one):
        yield _seconds(name, what, planned, one)


def has_seconds(one: UpdateFigures) -> bool:
    """Whether the seconds of an update say something: those of a CPU say nothing of a GPU's."""
    return bool(one.figures.seconds) and one.figures.allocated_before_bytes is not None


def _seconds(name: str, what: str, planned: PlannedPass, one: UpdateFigures) -> Measurement:
    interval, repetitions = seconds(planned), one.figures.seconds
    return Measurement(
        name=f"verl_update.{name}.seconds",
        what=_("{what}: seconds of the update").format(what=what),
        unit="seconds",
        measured=median(repetitions),
        predicted=interval.seconds,
        low=interval.low_s,
        high=interval.high_s,
        details={
            "repetitions": len(repetitions),
            "least": min(repetitions),
            "most": max(repetitions),
            "tokens": planned.case.tokens * planned.case.micro_batches,
            "layers": planned.model.layers,
        },
    )
