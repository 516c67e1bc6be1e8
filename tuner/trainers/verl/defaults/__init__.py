"""The composed trainer configurations of released verl wheels, as data.

Each ``<release>-<config>.json`` is written by ``python -m tuner.trainers.verl.defaults.build WHEEL...``
and says which wheel and which files of it it was made from.
"""

from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tuner.inputs.settings import Layer, Origin, Settings

CONFIG_FOLDER = "verl/trainer/config/"  # of a wheel
CONFIGS: tuple[str, ...] = ("ppo_trainer", "ppo_megatron_trainer")
VEOMNI_CONFIG = "ppo_veomni_trainer"  # verl's ppo_trainer with ``model_engine=veomni``, bundled since 0.7.1
PPO_CONFIGS: tuple[str, ...] = (*CONFIGS, VEOMNI_CONFIG)
#: Of supervised fine-tuning: its own trainer up to 0.7.0, and the one on the model engines since 0.6.0.
FINE_TUNING_CONFIGS: tuple[str, ...] = (
    "sft_trainer",
    "sft_trainer_engine",
    "sft_trainer_engine_megatron",
    "sft_trainer_engine_veomni",
)

#: Configurations that are another one with other choices of its config groups: that one, and the choices.
CHOSEN: Mapping[str, tuple[str, Mapping[str, str]]] = {
    VEOMNI_CONFIG: ("ppo_trainer", {"model_engine": "veomni"}),
    "sft_trainer_engine_megatron": ("sft_trainer_engine", {"engine": "megatron", "optim": "megatron"}),
    "sft_trainer_engine_veomni": ("sft_trainer_engine", {"engine": "veomni", "optim": "veomni"}),
}


def file_of(config: str) -> tuple[str, Mapping[str, str]]:
    """The name of the file that a configuration stands in, and the choices that make it of that."""
    return CHOSEN.get(config, (config, {}))


class Defaults(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """What one release's trainer configuration holds before a user changes anything.

    Each is told apart by itself, so that what is made of a large tree can be kept for it.
    """

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

    @cached_property
    def settings(self) -> Settings:
        """Settings that nobody has changed, from which those of users keep what does not rest on a change."""
        tree = dict(self.tree)
        return Settings(tree=tree, defaults=tree, origins={}, default_origin=Origin(layer=Layer.DEFAULT))


@cache
def read_defaults(version: str, config: str) -> Defaults:
    """The defaults of a bundled release; ``config`` is one that it has, see :func:`has_config`."""
    return read_file(_file(version, config))


@cache
def has_config(version: str, config: str) -> bool:
    """Whether a bundled release has a configuration of this name."""
    return _file(version, config).is_file()


def trainer_configs(version: str) -> tuple[str, ...]:
    """The configurations of reinforcement learning that a bundled release has."""
    return tuple(config for config in PPO_CONFIGS if has_config(version, config))


def family(config: str) -> tuple[str, ...]:
    """The configurations that share their keys with one."""
    families = (PPO_CONFIGS, FINE_TUNING_CONFIGS[:1], FINE_TUNING_CONFIGS[1:])
    return next((members for members in families if config in members), PPO_CONFIGS)


def _file(version: str, config: str) -> Path:
    return Path(__file__).parent / f"{version}-{config}.json"


def read_file(file: Path) -> Defaults:
    """Defaults as they were written."""
    return msgspec.json.decode(file.read_bytes(), type=Defaults)
