"""What a training pass came to, as figures of the report."""

from collections import Counter
from collections.abc import Iterator
from statistics import median

from tuner.language import _
from tuner.validate.report.schema import Measurement
from tuner.validate.report.verdicts import PEAK_TOLERANCE, reserved
from tuner.validate.training.groups import Try
from tuner.validate.training.passes import PlannedPass
from tuner.validate.training.settings import PassFigures
from tuner.validate.training.verdicts import MeasuredPass


def pass_measurements(measured: MeasuredPass) -> Iterator[Measurement]:
    """The peak with its terms, what the allocator holds, and seconds."""
    compared, figures, case = measured.compared, measured.figures, measured.planned.case
    phase = measured.planned.phase.value
    timed = measured.planned.settings.timed
    terms: Counter[str] = Counter()
    for term in compared.terms:
        terms[term.name] += term.bytes
    yield Measurement(
        name=f"{phase}.peak",
        what=_("peak of {phase}, {micro_batches} x {tokens:,} tokens, {engine}'s engine").format(
            phase=phase, micro_batches=case.micro_batches, tokens=case.tokens, engine=figures.engine
        ),
        unit="bytes",
        measured=compared.measured_peak,
        predicted=compared.predicted_peak,
        tolerance=PEAK_TOLERANCE,
        extrapolated=measured.extrapolated,
        details={"moment": compared.moment, **terms, **_allocator(figures)},
    )
    if figures.peak_reserved_bytes is not None:
        held = _("most that the allocator holds during {phase}").format(phase=phase)
        yield reserved(f"{phase}.reserved", held, figures.peak_reserved_bytes, compared)
    if figures.seconds:
        yield pass_seconds(
            f"{phase}.seconds",
            _("{phase}, {micro_batches} x {tokens:,} tokens on {gpus}").format(
                phase=phase,
                micro_batches=timed.micro_batches,
                tokens=case.tokens,
                gpus=_gpus(case.world_size),
            ),
            measured.planned,
            figures,
            extrapolated=measured.extrapolated,
        )


def pass_seconds(
    name: str, what: str, planned: PlannedPass, figures: PassFigures, *, extrapolated: str | None = None
) -> Measurement:
    """The seconds of what was run for the time, beside those that are modelled, with their causes."""
    predicted, timed, interval = planned.predicted_time, planned.settings.timed, planned.predicted_interval
    return Measurement(
        name=name,
        what=what,
        unit="seconds",
        measured=median(figures.seconds),
        predicted=predicted.seconds,
        low=interval.low_s,
        high=interval.high_s,
        extrapolated=extrapolated,
        details={
            "repetitions": len(figures.seconds),
            "least": min(figures.seconds),
            "most": max(figures.seconds),
            **({"once": median(figures.once_seconds)} if figures.once_seconds else {}),
            "tokens": timed.tokens * timed.micro_batches,
            "layers": planned.model.layers,
            **{f"modelled_{cause}": seconds for cause, seconds in predicted.parts if seconds},
        },
    )


def _gpus(count: int) -> str:
    return _("one GPU") if count == 1 else _("each of {count} GPUs").format(count=count)


def _allocator(figures: PassFigures) -> dict[str, int]:
    """Further figures of the allocator and the driver, those that there are."""
    details = {
        "measured_before": figures.allocated_before_bytes,
        "measured_requested": figures.peak_requested_bytes,
        "measured_non_torch": figures.non_torch_bytes,
    }
    details |= {f"measured_{stage.value}": size for stage, size in figures.stages.items()}
    return {name: size for name, size in details.items() if size is not None}


def out_of_memory(failed: Try, free: int) -> Measurement:
    """A pass that did not fit into what was free, in bytes."""
    peak = failed.planned.predicted.peak_bytes
    return Measurement(
        name=f"{failed.planned.phase.value}.peak",
        what=_("{phase} ran out of memory: it takes more than was free").format(
            phase=failed.planned.phase.value
        ),
        unit="bytes",
        measured=free,
        predicted=peak,
        low=0,
        high=(1 + PEAK_TOLERANCE) * peak,
    )
