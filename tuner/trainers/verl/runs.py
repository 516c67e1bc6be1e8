"""What runs of verl print and record; each part is loaded when it is asked for."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner.model_shape import ModelShape
from tuner.trainers.protocol import Loaded, ShownSetting
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.inputs.log.metrics import StepMetrics
    from tuner.inputs.record.read import RunRecord
    from tuner.workload.engine import Engine
    from tuner.workload.observed_run import ObservedRun


def observed_run(steps: "Sequence[StepMetrics]", workload: Workload) -> "ObservedRun | None":
    """What a run's metrics say, see :func:`tuner.trainers.verl.step_metrics.observed_steps`."""
    from tuner.trainers.verl import step_metrics

    return step_metrics.observed_steps(steps, workload)


def shown_settings(steps: "Sequence[StepMetrics]", loaded: Loaded) -> tuple[ShownSetting, ...]:
    """What metrics show of the job, see :func:`tuner.trainers.verl.shown_settings.shown_settings`."""
    from tuner.trainers.verl import shown_settings as module

    return module.shown_settings(steps, loaded)


def with_record(
    record: "RunRecord", observed: "ObservedRun | None", workload: Workload
) -> "ObservedRun | None":
    """What the workers recorded, see :func:`tuner.trainers.verl.observed_record.with_record`."""
    from tuner.trainers.verl import observed_record

    return observed_record.with_record(record, observed, workload)


def release_of(record: "RunRecord") -> str | None:
    """The release of verl that its recorder wrote down."""
    return record.process.verl


def sent_metrics(values: "Mapping[str, float]") -> dict[str, float]:
    """What a run may be sent with, see :func:`tuner.trainers.verl.sent_metrics.sent_metrics`."""
    from tuner.trainers.verl import sent_metrics as module

    return module.sent_metrics(values)


def noted_settings(note: str) -> tuple[str, ...]:
    """Settings that a note names, see :func:`tuner.trainers.verl.run_notes.noted_settings`."""
    from tuner.trainers.verl import run_notes

    return run_notes.noted_settings(note)


def engine_version_of(release: str, nearest: Workload) -> str | None:
    """The engine's version, see :func:`tuner.trainers.verl.unbundled_releases.engine_version_of`."""
    from tuner.trainers.verl import unbundled_releases

    return unbundled_releases.engine_version_of(release, nearest)


def engine_of_pass(engine: "Engine", model: ModelShape, *, images: bool) -> "Engine":
    """What verl adds to a pass, see :func:`tuner.trainers.verl.measured_passes.engine_of_pass`."""
    from tuner.trainers.verl import measured_passes

    return measured_passes.engine_of_pass(engine, model, images=images)


def printed_utilisation(metrics: dict[str, float]) -> float | None:
    """What a step printed, see :func:`tuner.trainers.verl.flop_utilisation.printed_utilisation`."""
    from tuner.trainers.verl import flop_utilisation

    return flop_utilisation.printed_utilisation(metrics)


def utilisation(workload: Workload, seconds: float) -> float | None:
    """What would be printed, see :func:`tuner.trainers.verl.flop_utilisation.utilisation`."""
    from tuner.trainers.verl import flop_utilisation

    return flop_utilisation.utilisation(workload, seconds)
