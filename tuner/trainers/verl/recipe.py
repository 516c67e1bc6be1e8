"""What a recipe is: a trainer on verl's workers with a configuration of its own."""

from msgspec import Struct

from tuner.inputs.tree import Tree


class Recipe(Struct, frozen=True, kw_only=True):
    """A trainer on verl's workers, with its configuration."""

    modules: tuple[str, ...]  # behind ``python -m``
    configs: tuple[str, ...]  # names of its configurations
    since: str  # the first release with it
    tree: Tree  # what its configuration lays on that of the PPO trainer
    until: str = "0.8.0"  # the first release whose sections are others
    release: str = ""  # the release that it is written for, where it names one
