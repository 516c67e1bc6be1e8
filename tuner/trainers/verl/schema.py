"""The keys that the bundled releases of verl know."""

from functools import lru_cache, partial

from tuner.inputs.tree import Path, contains
from tuner.trainers.schema import Schema
from tuner.trainers.verl.defaults import PPO_CONFIGS, Defaults, family, has_config, read_defaults
from tuner.trainers.verl.releases import BUNDLED

_MAIN_SECTIONS = ("data", "trainer", "algorithm", "actor_rollout_ref")


@lru_cache(maxsize=16)  # most configurations rest on a few
def schema_of(defaults: Defaults) -> Schema:
    """The keys of some defaults."""
    known_in = partial(releases_with, configs=family(defaults.config))
    return Schema(defaults.tree, defaults.fields, _MAIN_SECTIONS, known_in)


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
