"""The first settings of a plan, ranked anew by what their passes and engines took on a GPU.

A phase that was measured takes, in every setting whose phase has the same shape, what is modelled of it times
the ratio of measured to modelled seconds. A trainer's phase has the same shape where the same engine runs it:
parallel sizes, recomputation, packing, head and micro-batch; where states lie between passes, and how they
get there, does not count. The rollout has the same shape where the engine is the same but for its share of
the card. Where several settings measured one shape, the geometric mean of their ratios holds.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log

from msgspec.structs import replace

from tuner.language import _
from tuner.plan.answer import PlannedSetting
from tuner.plan.corrections import CorrectedSetting, MeasuredPlan, PhaseRatio
from tuner.plan.ranking import ranks_of
from tuner.timing import PhaseTime, StepTime, step_interval
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import Measurement, ValidationFile
from tuner.workload import Phase, Workload

_ENGINE_STEP = "rollout.engine_step"  # of vLLM's own engine
_PASS = ".seconds"  # behind the name of a phase

Shape = tuple[Phase, object]


def parts_to_run(
    settings: Sequence[PlannedSetting], places: Sequence[int]
) -> dict[int, tuple[ValidationPart, ...]]:
    """What is run of each finalist: nothing whose every phase has the shape of an earlier one's.

    It follows from the plan alone, so that all nodes of a launch come to the same.
    """
    seen: set[Shape] = set()
    parts: dict[int, tuple[ValidationPart, ...]] = {}
    for place in places:
        setting = settings[place]
        shapes = {
            shape
            for phase in setting.time.phases
            if (shape := _shape(setting.workload, phase.phase)) is not None
        } - seen
        engine = [ValidationPart.ROLLOUT] if any(phase is Phase.ROLLOUT for phase, _of_it in shapes) else []
        passes = [ValidationPart.TRAINING_STEP] if len(shapes) > len(engine) else []
        if shapes:
            parts[place] = (*passes, *engine)
        seen |= shapes
    return parts


def measured_plan(
    settings: Sequence[PlannedSetting],
    files: Mapping[int, Sequence[ValidationFile]],
    *,
    budget_s: float,
    spent_s: float,
) -> MeasuredPlan:
    """The settings ranked by what was measured.

    Args:
        settings: of the plan, the fastest first.
        files: what was measured with each of the finalists, by its place among the settings, from 0.
        budget_s: that measuring was given.
        spent_s: that measuring took.
    """
    own = {place: _ratios(settings[place].workload, reports) for place, reports in files.items()}
    shared = _shared(own)
    times, ratios = [], []
    for place, setting in enumerate(settings):
        of_it = {
            phase.phase: shared[shape]
            for phase in setting.time.phases
            if (shape := _shape(setting.workload, phase.phase)) in shared
        }
        mine = {phase for phase, _shape_of in own.get(place, ())}
        times.append(_corrected(setting.time, of_it))
        ratios.append(
            tuple(PhaseRatio(phase=phase, ratio=ratio, own=phase in mine) for phase, ratio in of_it.items())
        )
    order = sorted(range(len(settings)), key=lambda place: times[place].seconds)
    ranked = ranks_of([(times[place], settings[place].workload.cluster) for place in order])
    reports = [report for several in files.values() for report in several]
    return MeasuredPlan(
        settings=tuple(
            CorrectedSetting(
                place=place + 1,
                rank=rank,
                step=step_interval(times[place], settings[place].workload.cluster),
                modelled_s=settings[place].time.seconds,
                ratios=ratios[place],
            )
            for rank, place in zip(ranked, order, strict=True)
        ),
        device=reports[0].hardware if reports else "",
        budget_s=budget_s,
        spent_s=spent_s,
        notes=tuple(dict.fromkeys(_notes(files))),
    )


def _notes(files: Mapping[int, Sequence[ValidationFile]]) -> Iterator[str]:
    """What a reader must know: why parts ended early too, each with its setting."""
    for place, several in files.items():
        for file in several:
            yield from file.notes
            for part in file.validation.parts:
                if part.reason:
                    yield _("Setting {place}, {part}: {reason}.").format(
                        place=place + 1, part=part.part.value, reason=part.reason
                    )


def _ratios(workload: Workload, files: Sequence[ValidationFile]) -> dict[Shape, list[float]]:
    """Measured over modelled seconds of the phases of one finalist, on every kind of node."""
    ratios: dict[Shape, list[float]] = {}
    for measurement in _measurements(files):
        phase = _phase_of(measurement)
        shape = None if phase is None else _shape(workload, phase)
        if shape is not None and measurement.predicted and measurement.measured > 0:
            ratios.setdefault(shape, []).append(measurement.measured / measurement.predicted)
    return ratios


def _measurements(files: Sequence[ValidationFile]) -> Iterator[Measurement]:
    for file in files:
        for part in file.validation.parts:
            yield from (one for one in part.measurements if one.unit == "seconds")


def _phase_of(measurement: Measurement) -> Phase | None:
    """The phase that a measurement is of; None where it is of none whose seconds are modelled."""
    if measurement.name == _ENGINE_STEP:
        return Phase.ROLLOUT
    name = measurement.name.removesuffix(_PASS)
    if name == measurement.name or name not in {phase.value for phase in Phase}:
        return None
    return Phase(name)


def _shape(workload: Workload, phase: Phase) -> Shape | None:
    """What two settings have in common whose phase takes as long per piece of work; None without one."""
    if phase is Phase.ROLLOUT:
        return phase, None if workload.rollout is None else workload.rollout.unsized
    step_pass = workload.pass_of(phase)
    if step_pass is None:
        return None
    engine = replace(
        step_pass.engine,
        param_offload=False,
        optimizer_offload=False,
        optimizer_offload_fraction=0.0,
        host_copy=type(step_pass.engine.host_copy).PINNED,
    )
    return phase, replace(step_pass, engine=engine)


def _shared(own: Mapping[int, Mapping[Shape, Sequence[float]]]) -> dict[Shape, float]:
    """One ratio for each shape that was measured."""
    ratios: dict[Shape, list[float]] = {}
    for of_one in own.values():
        for shape, several in of_one.items():
            ratios.setdefault(shape, []).extend(several)
    return {shape: exp(sum(map(log, several)) / len(several)) for shape, several in ratios.items()}


def _corrected(time: StepTime, ratios: Mapping[Phase, float]) -> StepTime:
    return StepTime(
        phases=tuple(_scaled(phase, ratios.get(phase.phase, 1.0)) for phase in time.phases), apart=time.apart
    )


def _scaled(phase: PhaseTime, ratio: float) -> PhaseTime:
    """A phase that takes so many times as long for the same causes; the host's part was measured with it."""
    if ratio == 1.0:
        return phase
    return replace(
        phase,
        seconds=ratio * phase.seconds,
        parts=tuple((cause, ratio * seconds) for cause, seconds in phase.parts),
        job=None,
        engine=None,
        ranges=tuple(
            replace(one, low_s=ratio * one.low_s, high_s=ratio * one.high_s) for one in phase.ranges
        ),
    )
