"""verl, as :class:`~tuner.trainers.protocol.Trainer` asks for it: the only place that spells its keys."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuner.trainers.key_facts import OfferedKey
from tuner.trainers.protocol import Behaviour, Reader
from tuner.trainers.verl import checks
from tuner.trainers.verl.coverage.left_out import key_classes
from tuner.trainers.verl.load import parse, recognises
from tuner.trainers.verl.releases import BUNDLED, RELEASES
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.inputs.log.metrics import StepMetrics
    from tuner.inputs.record.read import RunRecord
    from tuner.out_of_memory.stack import Call
    from tuner.workload.observed_run import ObservedRun
    from tuner.workload.place import FailurePlace

__all__ = [
    "behaviours",
    "bundled_releases",
    "choose_release",
    "deciding_keys",
    "engine_version_of",
    "examples",
    "input_schema",
    "key_classes",
    "may_configure",
    "name",
    "noted_settings",
    "observed",
    "offered_keys",
    "parse",
    "place_of",
    "printed_utilisation",
    "recognises",
    "recorded",
    "rules",
    "utilisation",
]

name = "verl"
examples = Path(__file__).parent / "examples"
rules = checks.RULES
bundled_releases = BUNDLED
choose_release = RELEASES.choose


# What few commands ask for is loaded when they do.


def behaviours(asked: str, nearest: Workload, read: Reader) -> tuple[Behaviour, ...]:
    """How an unknown release may run a job, see :func:`tuner.trainers.verl.unbundled_releases.behaviours`."""
    from tuner.trainers.verl import unbundled_releases

    return unbundled_releases.behaviours(asked, nearest, read)


def observed(steps: "Sequence[StepMetrics]", workload: Workload) -> "ObservedRun | None":
    """What a run's metrics say, see :func:`tuner.trainers.verl.step_metrics.observed`."""
    from tuner.trainers.verl import step_metrics

    return step_metrics.observed(steps, workload)


def recorded(record: "RunRecord", observed: "ObservedRun | None", workload: Workload) -> "ObservedRun | None":
    """What the workers recorded, see :func:`tuner.trainers.verl.observed_record.recorded`."""
    from tuner.trainers.verl import observed_record

    return observed_record.recorded(record, observed, workload)


def deciding_keys(place: "FailurePlace", version: str) -> tuple[str, ...]:
    """What decides the memory at a place, see :func:`tuner.trainers.verl.memory_keys.deciding_keys`."""
    from tuner.trainers.verl import memory_keys

    return memory_keys.deciding_keys(place, version)


def input_schema(version: str) -> dict[str, Any]:
    """The JSON Schema of the configurations that a bundled release takes."""
    from tuner.trainers.verl import editor_schema  # no answer asks for it

    return editor_schema.input_schema(version)


def offered_keys(version: str, begun: str) -> tuple[OfferedKey, ...]:
    """The keys that begin so, see :func:`tuner.trainers.verl.key_completion.offered_keys`."""
    from tuner.trainers.verl import key_completion

    return key_completion.offered_keys(version, begun)


def may_configure(text: str, *, yaml: bool) -> bool:
    """Whether a file is the trainer's, see :func:`tuner.trainers.verl.detection.may_configure`."""
    from tuner.trainers.verl import detection

    return detection.may_configure(text, yaml=yaml)


def engine_version_of(asked: str, nearest: Workload) -> str | None:
    """The engine's version, see :func:`tuner.trainers.verl.unbundled_releases.engine_version_of`."""
    from tuner.trainers.verl import unbundled_releases

    return unbundled_releases.engine_version_of(asked, nearest)


def noted_settings(note: str) -> tuple[str, ...]:
    """Settings that a note names, see :func:`tuner.trainers.verl.run_notes.noted_settings`."""
    from tuner.trainers.verl import run_notes

    return run_notes.noted_settings(note)


def place_of(calls: "Sequence[Call]") -> "FailurePlace":
    """Where a job was when it stopped, see :func:`tuner.trainers.verl.places.place_of`."""
    from tuner.trainers.verl import places

    return places.place_of(calls)


def printed_utilisation(metrics: dict[str, float]) -> float | None:
    """What a step printed, see :func:`tuner.trainers.verl.flop_utilisation.printed_utilisation`."""
    from tuner.trainers.verl import flop_utilisation

    return flop_utilisation.printed_utilisation(metrics)


def utilisation(workload: Workload, seconds: float) -> float | None:
    """What would be printed, see :func:`tuner.trainers.verl.flop_utilisation.utilisation`."""
    from tuner.trainers.verl import flop_utilisation

    return flop_utilisation.utilisation(workload, seconds)
