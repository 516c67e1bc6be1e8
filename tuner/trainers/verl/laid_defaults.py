"""The defaults that a configuration is laid on: a trainer's, with an example or a recipe over them.

Each says how it is asked for again, for a file that holds only what differs.
"""

from collections.abc import Collection, Sequence
from functools import lru_cache

from msgspec.structs import replace

from tuner.inputs.overrides import Arguments, OverrideKind
from tuner.inputs.tree import Path, Tree, contains, dotted, leaves, merged, nested, split_key
from tuner.trainers.protocol import Base
from tuner.trainers.verl.defaults import CONFIGS, Defaults
from tuner.trainers.verl.defaults_list import Composition
from tuner.trainers.verl.example_configs import ExampleConfig, example_config
from tuner.trainers.verl.forks.fork import Fork
from tuner.trainers.verl.forks.translate import laid_on
from tuner.trainers.verl.recipe import Recipe
from tuner.trainers.verl.recipes import ahead_of, named, recognise, started_as
from tuner.trainers.verl.schema import releases_with

_STRATEGY = "actor_rollout_ref.actor.strategy"
_ENGINE = "model_engine"


def trainer_defaults(
    release: Defaults, fork: Fork | None, own: Tree | None, keys: Collection[Path]
) -> Defaults:
    """Defaults of a trainer.

    Args:
        release: those of verl's release.
        fork: the project that has others.
        own: the user's own copy of them; None where there is none.
        keys: those that the user sets.
    """
    if own is not None:
        beneath = {} if fork is None or fork.is_in_verls_file else laid_on(fork, {})
        return replace(release, tree=merged(beneath, own))
    return release if fork is None else replace(release, tree=laid_on(fork, dict(release.tree), keys))


def laid_defaults(
    trainer: Defaults,
    composition: Composition,
    arguments: Arguments,
    version: str,
    *,
    program: str,
    of_project: bool,
    settled: bool = False,
    laid_on: str = "",
) -> tuple[Defaults, Base]:
    """The trainer's defaults with those of the example or the recipe that is told, and their name.

    Args:
        trainer: its own defaults.
        composition: the user's files.
        arguments: overrides, and the name of a configuration.
        version: the release.
        program: what the launch starts.
        settled: whether the program's code names the configuration, so that keys tell no recipe.
        of_project: whether another project than verl reads it, whose keys tell no recipe of verl's.
        laid_on: the file in the tree that has the recipe's configuration, and none of its keys but those.
    """
    config_name = (arguments.config_name or "").removesuffix(".yaml")
    example = example_config(config_name) if composition.empty else None
    if example is not None and example.base == trainer.config:
        return laid(trainer, example), _base_laid(config_name, example.tree)
    recipe = named(config_name, version) or started_as(program, version)
    recipe = recipe or ahead_of(version, config_name, program)
    if recipe is None and not (of_project or settled) and composition.recipes:
        keys = _unmarked(composition, arguments)
        recipe = recognise(keys, dict(trainer.tree), version, known_elsewhere=releases_with)
    name = None if recipe is None else recipe.config(trainer.config)
    if recipe is None or name is None:
        return trainer, _base(trainer)
    if laid_on:
        recipe = _with_keys(recipe, frozenset(path for path in recipe.keys if _is_in(composition, path)))
    return laid(trainer, recipe), _base_laid(name, recipe.tree)


def _is_in(composition: Composition, path: Path) -> bool:
    return any(contains(document.tree, path) for document in composition.documents)


@lru_cache(maxsize=16)  # one object for one set of keys: what rests on it is remembered by it
def _with_keys(recipe: Recipe, paths: frozenset[Path]) -> Recipe:
    """A recipe as the user's own file of it has it."""
    if paths.issuperset(recipe.keys):
        return recipe
    tree: Tree = {}
    for path, value in leaves(recipe.tree):
        if path in paths:
            tree = merged(tree, nested(path, value))
    return replace(recipe, tree=tree)


@lru_cache(maxsize=16)  # most configurations rest on a few
def laid(trainer: Defaults, above: ExampleConfig | Recipe) -> Defaults:
    """The defaults of a configuration that lays keys of its own on the trainer's."""
    return replace(trainer, tree=merged(dict(trainer.tree), above.tree))


def _unmarked(composition: Composition, arguments: Arguments) -> Sequence[Path]:
    """The user's keys without those that a '+' marks as new."""
    changed = [split_key(item.key) for item in arguments.overrides if item.kind is OverrideKind.CHANGE]
    documents = composition.documents
    return changed + [path for document in documents for path, _value in leaves(document.tree) if path]


def _base_laid(name: str, tree: Tree) -> Base:
    """How these defaults are asked for again."""
    keys = tuple(dotted(path) for path, _ in leaves(tree))
    return Base(name=name, words=(f"--config-name={name}",), keys=keys)


def _base(defaults: Defaults) -> Base:
    """How these defaults are asked for again."""
    if defaults.config == CONFIGS[0]:
        return Base(name=defaults.config, keys=(_STRATEGY,))
    grouped = contains(defaults.tree, (_ENGINE,))  # since 0.7 the engine is a config group
    words = (f"{_ENGINE}={defaults.tree[_ENGINE]}",) if grouped else (f"--config-name={defaults.config}",)
    return Base(name=defaults.config, words=words, keys=(_STRATEGY,))
