"""The composed trainer configurations of released verl wheels, as data.

Each ``<release>-<config>.json`` is written by ``python -m tuner.trainers.verl.defaults.build WHEEL...``
and says which wheel and which files of it it was made from.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

CONFIGS: tuple[str, ...] = ("ppo_trainer", "ppo_megatron_trainer")


class Defaults(Struct, frozen=True, kw_only=True):
    """What one release's trainer configuration holds before a user changes anything."""

    version: str
    config: str
    tree: Mapping[str, Any]  # composed by Hydra, interpolations kept; not to be changed
    groups: Mapping[
        str, str
    ]  # config groups of the defaults list: "actor@actor_rollout_ref.actor" -> "dp_actor"
    fields: Mapping[str, tuple[str, ...]]  # fields of the dataclass that a section's ``_target_`` names
    wheel: str
    wheel_sha256: str
    files: tuple[str, ...]  # of the wheel


@cache
def read_defaults(version: str, config: str) -> Defaults:
    """The defaults of a bundled release; ``config`` is one of :data:`CONFIGS`."""
    return read_file(Path(__file__).parent / f"{version}-{config}.json")


def read_file(file: Path) -> Defaults:
    """Defaults as they were written."""
    return msgspec.json.decode(file.read_bytes(), type=Defaults)
