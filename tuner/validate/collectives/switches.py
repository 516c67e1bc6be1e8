"""What forward prefetching and Ulysses gain in an update on this machine, and what it takes with each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import median

from tuner.language import _
from tuner.models.shape import cut_config
from tuner.validate import training
from tuner.validate.children.call import Failed
from tuner.validate.children.servers import ServedFunction, Server
from tuner.validate.report.schema import Measurement
from tuner.validate.report.verdicts import PEAK_TOLERANCE
from tuner.validate.session import Options, Planned, Session, Subject
from tuner.validate.training.configured_passes import heads_can_be_shared
from tuner.validate.training.depths import cut_shape, usable_depths
from tuner.validate.training.figures import pass_seconds
from tuner.validate.training.passes import PlannedPass, planned_passes
from tuner.validate.training.plan import small
from tuner.validate.training.settings import ModelSettings, PassFailed, PassFigures, PassSettings
from tuner.workload import Phase

WORKER = ServedFunction.in_package(training.__name__, "worker.measure", "measure", Server.MODELS)
_ENGINE_S = 6.0  # building it, and its update a few times
_LAYERS = 4  # so many show what one more of them gains; the rest would show the same

Results = Mapping[PassSettings, PassFigures | PassFailed]


@dataclass(frozen=True, kw_only=True)
class Switch:
    """An update without and with something."""

    name: str  # of its figures
    what: str
    off: PlannedPass
    on: PlannedPass


def plan(subject: Subject, options: Options) -> tuple[Planned, ...]:
    """One process per GPU, unless no update of this job can be run here."""
    wanted = switches(subject, options)
    return (_planned(wanted),) if wanted else ()


def run(session: Session) -> None:
    """Seconds of an update with and without, and both peaks beside their predictions."""
    subject, options = session.subject, session.options
    wanted = switches(subject, options)
    if not wanted:
        session.note(
            _("Prefetching and Ulysses were not measured: no update that they change can be run here.")
        )
        return
    engines = list(dict.fromkeys(update.settings for switch in wanted for update in (switch.off, switch.on)))
    planned = _planned(wanted)
    results = session.call(
        WORKER,
        ModelSettings(config=cut_config(subject.model_config, wanted[0].off.model.layers)),
        [[settings] for settings in engines],
        title=planned.title,
        expected_s=planned.seconds,
        world=options.processes,
    )
    if isinstance(results, Failed):
        session.note(
            _("What {names} gain is missing: {results}.").format(
                names=_names(wanted), results=results.message
            )
        )
        return
    figures = dict(zip(engines, (result for (result,) in results), strict=True))
    for measurement in measurements(wanted, figures, timed=options.device != "cpu"):
        session.add(measurement)
    for switch in wanted:
        for one in (switch.off, switch.on):
            if isinstance(failed := figures[one.settings], PassFailed):
                session.note(
                    _("What {what} gains is missing: {failed}.").format(
                        what=switch.what, failed=failed.message
                    )
                )


def switches(subject: Subject, options: Options) -> tuple[Switch, ...]:
    """What can be switched in the actor's update and changes it; nothing if it cannot be run here."""
    planned = planned_passes(subject.workload, processes=options.processes)
    update = next((one for one in planned if one.phase is Phase.UPDATE_ACTOR), None)
    if update is None:
        return ()
    if options.device == "cpu":
        update = small(update)
    model = update.model
    layers = min((depth for depth in usable_depths(model) if depth >= _LAYERS), default=model.layers)
    update = update.with_model(cut_shape(model, subject.model_config, layers))
    return tuple(switch for switch in (_prefetching(update), _ulysses(update)) if switch is not None)


def _prefetching(update: PlannedPass) -> Switch | None:
    if not update.workload.actor.engine.prefetch_effective:
        return None
    off, on = (
        replace(
            update,
            case=update.case.model_copy(update={"forward_prefetch": switched}),
            workload=update.workload.with_actor_engine(forward_prefetch=switched),
        )
        for switched in (False, True)
    )
    return Switch(name="prefetch", what=_("forward prefetching"), off=off, on=on)


def _ulysses(update: PlannedPass) -> Switch | None:
    """As many GPUs for a sequence as are configured; without any, the fewest that can share one."""
    parallel = update.workload.actor.engine.parallel
    possible = (
        ranks
        for ranks in range(2, parallel.gpus + 1)
        if parallel.gpus % ranks == 0 and heads_can_be_shared(update.model, ranks)
    )
    ranks = parallel.ulysses if parallel.ulysses > 1 else next(possible, 1)
    if ranks == 1 or update.model.tower is not None:  # images are not shared here
        return None
    off, on = update.shared_by(1), update.shared_by(ranks)
    return Switch(name="ulysses", what=_("Ulysses over {ranks} GPUs").format(ranks=ranks), off=off, on=on)


def _names(wanted: tuple[Switch, ...]) -> str:
    return _(" and ").join(switch.what for switch in wanted)


def _planned(wanted: tuple[Switch, ...]) -> Planned:
    engines = {update.settings for switch in wanted for update in (switch.off, switch.on)}
    return Planned(
        title=_("the update with and without {names}").format(names=_names(wanted)),
        seconds=_ENGINE_S * len(engines),
    )


def measurements(wanted: tuple[Switch, ...], figures: Results, *, timed: bool) -> Iterator[Measurement]:
    """Figures of the updates without and with each switch, failed ones left out; one without is told once.

    Args:
        wanted: what was switched.
        figures: what came of each update.
        timed: whether seconds mean anything, as they do not on a CPU.
    """
    reported: set[PassSettings] = set()
    for switch in wanted:
        for name, one in (("off", switch.off), ("on", switch.on)):
            figures_of_one = figures[one.settings]
            if isinstance(figures_of_one, PassFigures) and (name == "on" or one.settings not in reported):
                reported.add(one.settings)
                which = _("{what} on") if name == "on" else _("{what} off")
                yield from _update(
                    f"{switch.name}_{name}", which.format(what=switch.what), one, figures_of_one, timed=timed
                )
        off, on = figures[switch.off.settings], figures[switch.on.settings]
        if timed and isinstance(off, PassFigures) and isinstance(on, PassFigures):
            yield _gain(switch, median(off.seconds), median(on.seconds))


def _update(
    name: str, which: str, one: PlannedPass, figures: PassFigures, *, timed: bool
) -> Iterator[Measurement]:
    layers, case = one.model.layers, one.case
    if figures.peak_allocated_bytes is not None:
        compared = one.compared(figures)
        yield Measurement(
            name=f"{name}.peak",
            what=_("peak of an update of {layers} layers, {which}").format(layers=layers, which=which),
            unit="bytes",
            measured=compared.measured_peak,
            predicted=compared.predicted_peak,
            tolerance=PEAK_TOLERANCE,
            details={
                "layers": layers,
                "tokens": case.tokens,
                "sequence_length": case.sequence_length,
                "moment": compared.moment,
                **{term.name: term.bytes for term in compared.terms},
            },
        )
    if timed:
        yield pass_seconds(
            f"{name}.seconds",
            _("an update of {layers} layers, {which}").format(layers=layers, which=which),
            one,
            figures,
        )


def _gain(switch: Switch, off: float, on: float) -> Measurement:
    one = switch.on
    return Measurement(
        name=f"{switch.name}.gain",
        what=_("share of an update's seconds that {what} saves; below 0 it costs").format(what=switch.what),
        unit="share",
        measured=1 - on / off,
        details={"layers": one.model.layers, "tokens": one.case.tokens},
    )
