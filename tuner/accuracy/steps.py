"""The phases of a run's step beside their predictions, and the step of those passes that the run made."""

from collections.abc import Iterator

from msgspec.structs import replace

from tuner.accuracy.seconds import LEAST_S, MeasurementOrigin, TimedPhase
from tuner.timing import Interval, PhaseTime, StepTime, interval, step_interval
from tuner.workload import Phase, Workload
from tuner.workload.observed_run import ObservedRun

STEP = "step"
_UPDATES = frozenset([Phase.UPDATE_ACTOR, Phase.UPDATE_CRITIC])
# Each has a timer of its own in every release; judging may lie within generation, and new weights do.
_TIMED_APART = _UPDATES | {Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.VALUES}


def passes_not_made(time: StepTime, observed: ObservedRun) -> tuple[Phase, ...]:
    """The predicted passes that a run did not make: it timed generation and an update, and none of these."""
    timed = {phase for phase, _seconds in observed.seconds}
    if Phase.ROLLOUT not in timed or not timed & _UPDATES:
        return ()
    return tuple(one.phase for one in time.phases if one.phase in _TIMED_APART - timed)


def made(time: StepTime, observed: ObservedRun) -> StepTime:
    """The predicted step without the passes that the run did not make."""
    missing = passes_not_made(time, observed)
    return replace(time, phases=tuple(one for one in time.phases if one.phase not in missing))


def timed_together(time: StepTime, phase: Phase, observed: ObservedRun) -> tuple[PhaseTime, ...]:
    """The predicted phases that one timer of a run holds.

    Where the trainer's timer of the rollout holds the handing over of new weights, so does the prediction.
    """
    held = {phase, Phase.UPDATE_WEIGHTS} if phase is Phase.ROLLOUT and observed.holds_sync else {phase}
    phases = tuple(one for one in time.phases if one.phase in held)
    return phases if any(one.phase is phase for one in phases) else ()


def timed_phases(
    case: str,
    workload: Workload,
    time: StepTime,
    observed: ObservedRun,
    *,
    origin: MeasurementOrigin = MeasurementOrigin.RUN,
) -> Iterator[TimedPhase]:
    """Each phase that has both, and the whole step, of the passes that the run made."""
    cluster = workload.cluster
    pairs: list[tuple[str, Interval, float | None]] = [
        (phase.value, interval(timed_together(time, phase, observed), cluster), seconds)
        for phase, seconds in observed.seconds
    ]
    step = made(time, observed)
    if step.phases:
        pairs.append((STEP, step_interval(step, cluster), observed.step_seconds))
    for name, modelled, measured in pairs:
        if modelled.seconds and measured is not None and measured >= LEAST_S:
            yield TimedPhase(
                case=case,
                phase=name,
                origin=origin,
                model=workload.model.name,
                gpu=cluster.gpu.name,
                gpus=cluster.gpus,
                predicted_s=modelled.seconds,
                low_s=modelled.low_s,
                high_s=modelled.high_s,
                measured_s=measured,
            )
