"""One trainer beside verl's own, whose configuration rests on that of the PPO trainer."""

from functools import cached_property

from msgspec import Struct

from tuner.inputs.tree import Path, Tree, leaves
from tuner.trainers.verl.defaults import CONFIGS


class Recipe(Struct, frozen=True, kw_only=True, eq=False, dict=True):
    """A trainer on verl's workers, with its configuration."""

    modules: tuple[str, ...]  # behind ``python -m``
    configs: tuple[str, ...]  # names of its configurations
    since: str  # the first release with it
    tree: Tree  # what its configuration lays on that of the PPO trainer
    until: str | None = "0.8.0"  # the first release whose sections are others
    release: str = ""  # the release that it is written for, where it names one
    megatron_config: str | None = None  # of the same tree, on the PPO trainer's configuration for Megatron

    @cached_property
    def keys(self) -> tuple[Path, ...]:
        """The keys that its configuration lays on that of the PPO trainer."""
        return tuple(path for path, _ in leaves(self.tree))

    def config(self, trainer_config: str) -> str | None:
        """The name of the configuration that rests on one of the PPO trainer's, None where there is none."""
        return self.configs[0] if trainer_config == CONFIGS[0] else self.megatron_config
