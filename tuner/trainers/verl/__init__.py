"""verl, as :class:`~tuner.trainers.protocol.Trainer` asks for it: the only place that spells its keys."""

from collections.abc import Sequence
from pathlib import Path

from tuner.out_of_memory.stack import Call
from tuner.trainers.verl import checks
from tuner.trainers.verl.changed_keys import changed_keys, key_state
from tuner.trainers.verl.checks import run as check
from tuner.trainers.verl.coverage.left_out import key_classes, left_out
from tuner.trainers.verl.deciding import deciding_keys
from tuner.trainers.verl.keys_of_fields import keys_of_fields
from tuner.trainers.verl.load import parse
from tuner.trainers.verl.observed import observed
from tuner.trainers.verl.read import (
    choose_rollout_engine,
    cluster_size,
    critic_model_key,
    critic_model_path,
    model_key,
    model_path,
    read,
    service_paths,
)
from tuner.trainers.verl.releases import BUNDLED, choose_release
from tuner.trainers.verl.resting import quantities, resting_on_defaults
from tuner.trainers.verl.unbundled import behaviours
from tuner.trainers.verl.write import override_writer
from tuner.workload import Workload
from tuner.workload.place import Place

__all__ = [
    "behaviours",
    "bundled_releases",
    "changed_keys",
    "check",
    "choose_release",
    "choose_rollout_engine",
    "cluster_size",
    "critic_model_key",
    "critic_model_path",
    "deciding_keys",
    "examples",
    "key_classes",
    "key_state",
    "keys_of_fields",
    "left_out",
    "may_configure",
    "model_key",
    "model_path",
    "name",
    "observed",
    "override_writer",
    "parse",
    "place_of",
    "printed_utilisation",
    "quantities",
    "read",
    "resting_on_defaults",
    "rules",
    "service_paths",
    "utilisation",
]

name = "verl"
examples = Path(__file__).parent / "examples"
rules = checks.RULES
bundled_releases = BUNDLED


# What few commands ask for is loaded when they do.


def may_configure(text: str, *, yaml: bool) -> bool:
    """Whether a file is the trainer's, see :func:`tuner.trainers.verl.mentioned.may_configure`."""
    from tuner.trainers.verl import mentioned

    return mentioned.may_configure(text, yaml=yaml)


def place_of(calls: Sequence[Call]) -> Place:
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
