"""The keys that the bundled releases of verl know."""

from functools import lru_cache, partial

from tuner.inputs.tree import Path, contains
from tuner.trainers.schema import Schema
from tuner.trainers.verl.defaults import PPO_CONFIGS, Defaults, family, has_config, read_defaults
from tuner.trainers.verl.releases import BUNDLED

_HANDED_ON = frozenset({"override_transformer_config", "reward_kwargs"})
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
