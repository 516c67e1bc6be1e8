"""The keys that the bundled releases of verl know."""

from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache, partial

from tuner.inputs.tree import Path, contains, lookup
from tuner.trainers.schema import Schema
from tuner.trainers.verl.defaults import PPO_CONFIGS, Defaults, family, has_config, read_defaults
from tuner.trainers.verl.releases import BUNDLED

_HANDED_ON = frozenset({"override_transformer_config", "reward_kwargs"})
_SLIP = 0.8  # likeness of two names of which one is a slip of the other, as tuner.trainers.schema has it
_MAIN_SECTIONS = ("data", "trainer", "algorithm", "actor_rollout_ref")


@lru_cache(maxsize=16)  # most configurations rest on a few
def schema_of(defaults: Defaults) -> Schema:
    """The keys of some defaults."""
    known_in = partial(releases_with, configs=family(defaults.config))
    return Schema(defaults.tree, defaults.fields, _MAIN_SECTIONS, known_in, _takes_any)


def _takes_any(path: Path) -> bool:
    """Whether verl hands a section on whole: to ``ray.init``, Megatron's configuration, or a user's function.

    Source: verl 0.5.0 to 0.9.1 ``trainer/main_ppo.py``, ``trainer/ppo/reward.py``; 0.4.0 to 0.9.1
    ``workers/megatron_workers.py`` and ``workers/engine/megatron/transformer_impl.py``.
    """
    return path[:2] == ("ray_kwargs", "ray_init") or not _HANDED_ON.isdisjoint(path[:-1])


@lru_cache(maxsize=4096)  # many configurations have the same unknown keys
def releases_with(path: Path, configs: tuple[str, ...] = PPO_CONFIGS) -> tuple[str, ...]:
    """The bundled releases that have exactly this key in one of some configurations."""
    return tuple(
        version
        for version in BUNDLED
        if any(
            contains(read_defaults(version, config).tree, path)
            for config in configs
            if has_config(version, config)
        )
    )


def is_slip(path: Path, configs: tuple[str, ...] = PPO_CONFIGS) -> bool:
    """Whether some release has a key in the same section that differs from this one by a slip."""
    asked = ((version, config) for version in BUNDLED for config in configs if has_config(version, config))
    trees = (read_defaults(version, config).tree for version, config in asked)
    sections = (lookup(tree, path[:-1]) for tree in trees if contains(tree, path[:-1]))
    names = {str(name) for section in sections if isinstance(section, Mapping) for name in section}
    return bool(get_close_matches(path[-1], names, n=1, cutoff=_SLIP))
