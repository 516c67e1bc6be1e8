"""The first settings of a plan, ranked anew by what their passes and engines took on a GPU.

A phase that was measured takes, in every setting whose phase has the same shape, what is modelled of it times
the ratio of measured to modelled seconds. A trainer's phase has the same shape where the same engine runs it:
parallel sizes, recomputation, packing, head and micro-batch; where states lie between passes, and how they
get there, does not count. The rollout has the same shape where the engine is the same but for its share of
the card. Where several settings measured one shape, the geometric mean of their ratios holds.

A phase none of whose shape was measured borrows the mean of the phase in other shapes: what a host or a card
does faster or slower than the model has it, it does in all of them, and a setting whose engine was started
must not win by that alone. It may as well take what is modelled, or be as far from that mean on the other
side: the interval reaches as far, and a setting is behind another one only where it is with each of them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import exp, log

from msgspec.structs import replace

from tuner.language import _
from tuner.plan.answer import PlannedSetting
from tuner.plan.corrections import CorrectedSetting, MeasuredPlan, PhaseRatio
from tuner.plan.ranking import ranks_of
from tuner.timing import Interval, PhaseTime, StepTime, step_interval
from tuner.validate.parts import ValidationPart
from tuner.validate.report.schema import Measurement, ValidationFile
from tuner.workload import Phase, Workload

_ENGINE_STEP = "rollout.engine_step"  # of vLLM's own engine
_PASS = ".seconds"  # behind the name of a phase

#: Of a ratio that is borrowed: as it is; none of it, as modelled; and as far from it on the other side.
_POWERS = (1, 0, 2)
#: Of a step, that measuring one setting twice may differ by: phases of two settings that were measured twice
#: on one machine differed by up to 2.3 % (``plan --validate`` on 2 x H200, 2026-11-30).
_REPEATED = 0.02

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
    known = _known_ratios(settings, files)
    by_power = [
        [_corrected(setting.time, of_it, power) for setting, of_it in zip(settings, known, strict=True)]
        for power in _POWERS
    ]
    order = sorted(range(len(settings)), key=lambda place: by_power[0][place].seconds)
    clusters = [setting.workload.cluster for setting in settings]
    ways = [[(steps[place], clusters[place]) for place in order] for steps in by_power]
    reports = [report for several in files.values() for report in several]
    return MeasuredPlan(
        settings=tuple(
            CorrectedSetting(
                place=place + 1,
                rank=rank,
                step=_widest([step_interval(steps[place], clusters[place]) for steps in by_power]),
                modelled_s=settings[place].time.seconds,
                ratios=known[place],
            )
            for rank, place in zip(ranks_of(*ways, beyond=_REPEATED), order, strict=True)
        ),
        device=reports[0].hardware if reports else "",
        budget_s=budget_s,
        spent_s=spent_s,
        notes=tuple(dict.fromkeys(_notes(files))),
    )


def _known_ratios(
    settings: Sequence[PlannedSetting], files: Mapping[int, Sequence[ValidationFile]]
) -> list[tuple[PhaseRatio, ...]]:
    """What is known of the phases of each setting."""
    own = {place: _ratios(settings[place].workload, reports) for place, reports in files.items()}
    shared = _shared(own)
    elsewhere = _of_phases(shared)
    return [
        _of_setting(setting, shared, elsewhere, own.get(place, ())) for place, setting in enumerate(settings)
    ]


def _of_setting(
    setting: PlannedSetting,
    shared: Mapping[Shape, float],
    elsewhere: Mapping[Phase, float],
    own: Iterable[Shape],
) -> tuple[PhaseRatio, ...]:
    """What is known of a setting's phases: of their shape, else of the phase in other shapes."""
    mine = {phase for phase, _shape_of in own}
    ratios = []
    for phase in (time.phase for time in setting.time.phases):
        ratio = shared.get(_shape(setting.workload, phase) or (phase, None))
        if ratio is not None:
            ratios.append(PhaseRatio(phase=phase, ratio=ratio, own=phase in mine))
        elif phase in elsewhere:
            ratios.append(PhaseRatio(phase=phase, ratio=elsewhere[phase], own=False, borrowed=True))
    return tuple(ratios)


def _widest(ways: Sequence[Interval]) -> Interval:
    """The first one's seconds, from the least to the most of all."""
    return replace(ways[0], low_s=min(one.low_s for one in ways), high_s=max(one.high_s for one in ways))


def _notes(files: Mapping[int, Sequence[ValidationFile]]) -> Iterator[str]:
    """What a reader must know: why parts ended early too, each with its setting."""
    early: dict[tuple[ValidationPart, str], list[int]] = {}
    for place, several in files.items():
        for file in several:
            yield from file.notes
            for part in file.validation.parts:
                if part.reason and part.reason.rpartition(": ")[2] not in "".join(file.notes):
                    early.setdefault((part.part, part.reason), []).append(place + 1)
    for (part_name, reason), places in early.items():
        yield _("{part} of setting {places}: {reason}.").format(
            part=part_name.value, places=", ".join(map(str, dict.fromkeys(places))), reason=reason
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
    return {shape: _mean(several) for shape, several in ratios.items()}


def _of_phases(shared: Mapping[Shape, float]) -> dict[Phase, float]:
    """One ratio for each phase of which any shape was measured: the same card and host are behind all."""
    ratios: dict[Phase, list[float]] = {}
    for (phase, _of_it), ratio in shared.items():
        ratios.setdefault(phase, []).append(ratio)
    return {phase: _mean(several) for phase, several in ratios.items()}


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def _corrected(time: StepTime, known: Sequence[PhaseRatio], power: int) -> StepTime:
    ratios = {one.phase: one.ratio**power if one.borrowed else one.ratio for one in known}
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
