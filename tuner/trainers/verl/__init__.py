"""verl, as :class:`~tuner.trainers.protocol.Trainer` asks for it: the only place that spells its keys."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.trainers.protocol import Behaviour, Loaded, Reader
from tuner.trainers.verl import catalogue, checks, runs
from tuner.trainers.verl.batch_fields import TOKEN_BYTES
from tuner.trainers.verl.load import parse, recognises
from tuner.trainers.verl.releases import RELEASES
from tuner.workload import Workload

if TYPE_CHECKING:
    from tuner.other_base import OtherBase
    from tuner.out_of_memory.stack import Call
    from tuner.trainers.placement import PlacedLaunch, Placement, PoolSplit
    from tuner.workload.place import FailurePlace

__all__ = [
    "behaviours",
    "bundled",
    "catalogue",
    "deciding_keys",
    "examples",
    "may_configure",
    "name",
    "other_base",
    "parse",
    "place_of",
    "placed",
    "recognises",
    "rules",
    "runs",
    "strategy_lines",
    "token_bytes",
]

name = "verl"
examples = Path(__file__).parent / "examples"
rules = checks.RULES
bundled = RELEASES
token_bytes = TOKEN_BYTES


# What few commands ask for is loaded when they do.


def behaviours(release: str, nearest: Workload, read: Reader) -> tuple[Behaviour, ...]:
    """How an unknown release may run a job, see :func:`tuner.trainers.verl.unbundled_releases.behaviours`."""
    from tuner.trainers.verl import unbundled_releases

    return unbundled_releases.behaviours(release, nearest, read)


def deciding_keys(place: "FailurePlace", version: str) -> tuple[str, ...]:
    """What decides the memory at a place, see :func:`tuner.trainers.verl.memory_keys.deciding_keys`."""
    from tuner.trainers.verl import memory_keys

    return memory_keys.deciding_keys(place, version)


def may_configure(text: str, *, yaml: bool) -> bool:
    """Whether a file is the trainer's, see :func:`tuner.trainers.verl.detection.may_configure`."""
    from tuner.trainers.verl import detection

    return detection.may_configure(text, yaml=yaml)


def place_of(calls: "Sequence[Call]") -> "FailurePlace":
    """Where a job was when it stopped, see :func:`tuner.trainers.verl.places.place_of`."""
    from tuner.trainers.verl import places

    return places.place_of(calls)


def other_base(before: Loaded, after: Loaded, program: str) -> "OtherBase | None":
    """What another configuration needs, see :func:`tuner.trainers.verl.placements.other_base`."""
    from tuner.trainers.verl import placements

    return placements.other_base(before, after, program)


def strategy_lines(loaded: Loaded, workload: Workload, name: str) -> tuple[str, ...]:
    """What has a job shard otherwise, see :func:`tuner.trainers.verl.strategies.strategy_lines`."""
    from tuner.trainers.verl import strategies

    return strategies.strategy_lines(loaded, workload, name)


def placed(loaded: Loaded, workload: Workload, placement: "Placement", split: "PoolSplit") -> "PlacedLaunch":
    """How a job generates elsewhere, see :func:`tuner.trainers.verl.placements.placed`."""
    from tuner.trainers.verl import placements

    return placements.placed(loaded, workload, placement, split)
