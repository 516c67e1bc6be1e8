"""What gathering the next layer's weights ahead gains on this machine, and what it takes."""

from dataclasses import replace
from statistics import median

from tuner.validate.depths import cut_config, cut_shape, usable_depths
from tuner.validate.pass_settings import ModelSettings, PassFigures
from tuner.validate.passes import PlannedPass, planned_passes
from tuner.validate.report import Measurement
from tuner.validate.session import Failed, Options, Planned, Session, Subject
from tuner.workload import Phase

WORKER = "tuner.validate.workers.prefetch:measure"
_PLANNED = Planned(title="the update with and without forward prefetching", seconds=12.0)
_LAYERS = 4  # so many show what one more of them gains; the rest would show the same
PEAK_TOLERANCE = 0.03


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """One process per GPU, unless no update of this job can be run here."""
    return (_PLANNED,) if _update(subject, options) is not None else ()


def run(session: Session) -> None:
    """Seconds of an update with and without, and both peaks beside their predictions."""
    update = _update(session.subject, session.options)
    if update is None:
        session.note("Prefetching was not measured: no update of this job can be run here.")
        return
    model, config = update.model, session.subject.model_config
    layers = min((depth for depth in usable_depths(model) if depth >= _LAYERS), default=model.layers)
    update = update.with_model(cut_shape(model, config, layers))
    both = [_prefetching(update, on) for on in (False, True)]
    found = session.call(
        WORKER,
        ModelSettings(config=cut_config(config, layers)),
        [[each.settings] for each in both],
        title=_PLANNED.title,
        expected_s=_PLANNED.seconds,
        world=session.options.processes,
    )
    if isinstance(found, Failed):
        session.note(f"What prefetching gains is missing: {found.message}.")
        return
    figures = [result for results in found for result in results]
    failed = [result.message for result in figures if not isinstance(result, PassFigures)]
    if failed:
        session.note(f"What prefetching gains is missing: {failed[0]}.")
        return
    for measurement in measurements(both, figures, timed=session.options.device != "cpu"):
        session.add(measurement)


def _update(subject: Subject, options: Options) -> PlannedPass | None:
    """The actor's update, if it can be run here and prefetching has an effect in its release."""
    planned = planned_passes(subject.workload, processes=options.processes)
    update = next((one for one in planned if one.phase is Phase.UPDATE_ACTOR), None)
    if update is None or not update.workload.actor.engine.prefetch_effective:
        return None
    return update


def _prefetching(planned: PlannedPass, on: bool) -> PlannedPass:
    return replace(
        planned,
        case=planned.case.model_copy(update={"forward_prefetch": on}),
        workload=planned.workload.with_actor_engine(forward_prefetch=on),
    )


def measurements(planned: list[PlannedPass], figures: list[PassFigures], *, timed: bool) -> list[Measurement]:
    """Of the update without and with prefetching, in this order.

    Args:
        planned: what was run.
        figures: what came of it.
        timed: whether seconds mean anything, as they do not on a CPU.
    """
    found = []
    layers = planned[0].model.layers
    for name, one, seen in zip(("off", "on"), planned, figures, strict=True):
        if seen.peak_allocated_bytes is not None:
            compared = one.compared(seen)
            found.append(
                Measurement(
                    name=f"prefetch_{name}.peak",
                    what=f"peak of an update of {layers} layers, forward prefetching {name}",
                    unit="bytes",
                    measured=compared.measured_peak,
                    predicted=compared.predicted_peak,
                    tolerance=PEAK_TOLERANCE,
                    details={"layers": layers, "tokens": one.case.tokens},
                )
            )
        if timed:
            found.append(_seconds(name, one, seen))
    if timed:
        off, on = (median(seen.seconds) for seen in figures)
        found.append(
            Measurement(
                name="prefetch.gain",
                what="share of an update's seconds that forward prefetching saves; below 0 it costs",
                unit="share",
                measured=1 - on / off,
                details={"layers": layers, "tokens": planned[0].case.tokens},
            )
        )
    return found


def _seconds(name: str, one: PlannedPass, seen: PassFigures) -> Measurement:
    return Measurement(
        name=f"prefetch_{name}.seconds",
        what=f"an update of {one.model.layers} layers, forward prefetching {name}",
        unit="seconds",
        measured=median(seen.seconds),
        details={
            "least_s": min(seen.seconds),
            "most_s": max(seen.seconds),
            "repetitions": len(seen.seconds),
            "micro_batches": one.case.micro_batches,
            "layers": one.model.layers,
        },
    )
