"""Lays a user's files and overrides on the defaults of a verl release."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location
from tuner.inputs.overrides import Argument, Arguments, Kind, Override, on_command_line, parse_overrides
from tuner.inputs.settings import Layer, Origin, Settings
from tuner.inputs.tree import Path, Tree, contains, dotted, leaves, merged, split_key
from tuner.inputs.yaml_file import Document
from tuner.language import _
from tuner.trainers.protocol import Base, Loaded
from tuner.trainers.verl.backend import choose_config, missing_config
from tuner.trainers.verl.defaults import CONFIGS, Defaults, read_defaults
from tuner.trainers.verl.defaults_list import Composition, follow
from tuner.trainers.verl.entry_points import refuse_other_entry_points
from tuner.trainers.verl.example_configs import example_config
from tuner.trainers.verl.layers import Layers
from tuner.trainers.verl.limits import expect_few
from tuner.trainers.verl.printed import as_set
from tuner.trainers.verl.recipe import Recipe
from tuner.trainers.verl.recipes import named, recognise
from tuner.trainers.verl.schema import Schema, releases_with

_STRATEGY = "actor_rollout_ref.actor.strategy"
_ENGINE = "model_engine"


class UserConfiguration(Struct, frozen=True, kw_only=True):
    """What the user gives, before it is laid on the defaults of a release."""

    composition: Composition
    arguments: Arguments
    keys: dict[Path, Location]

    def trainer_config(self, version: str) -> str:
        """Which of verl's trainer configurations it rests on.

        Raises:
            UnsupportedError: the configuration is for another engine of verl.
        """
        return choose_config(self.composition, self.arguments, self.keys, version)

    def adding(self, overrides: Sequence[str]) -> "UserConfiguration":
        """The same with overrides behind those of the user.

        Raises:
            InputError: an override is malformed.
        """
        more = parse_overrides(on_command_line(overrides)).overrides
        arguments = replace(self.arguments, overrides=(*self.arguments.overrides, *more))
        keys = _user_locations(self.composition.documents, arguments.overrides)
        return replace(self, arguments=arguments, keys=keys)

    def on(self, version: str) -> Loaded:
        """Lay what the user gives on the defaults of a bundled release.

        Raises:
            InputError: a section is given a plain value.
            UnsupportedError: the configuration is for another engine of verl.
        """
        defaults, base = self._defaults(version)
        missing = missing_config(self.arguments.config_name, self.composition)
        layers = Layers(dict(defaults.tree), Schema(defaults))
        for document in self.composition.documents:
            layers.add_document(document)
        for override in self.arguments.overrides:
            layers.add_override(override)
        settings = Settings(
            tree=layers.tree,
            defaults=dict(defaults.tree),
            origins=layers.origins,
            default_origin=Origin(
                layer=Layer.DEFAULT, text=_("default of verl {version}").format(version=version)
            ),
            unknown=() if missing else tuple(layers.unknown()),  # which its file may have
        )
        return Loaded(settings=settings, version=version, base=replace(base, missing=missing))

    def _defaults(self, version: str) -> tuple[Defaults, Base]:
        """Those of the trainer, the example or the recipe that is told, and how to ask for them again."""
        trainer = read_defaults(version, self.trainer_config(version))
        config_name = (self.arguments.config_name or "").removesuffix(".yaml")
        example = example_config(config_name) if self.composition.empty else None
        if example is not None and example.base == trainer.config:
            return _laid(trainer, config_name, example.tree)
        recipe = self._recipe(trainer, config_name, version)
        name = None if recipe is None else recipe.config(trainer.config)
        if recipe is None or name is None:
            return trainer, _base(trainer)
        return _laid(trainer, name, recipe.tree)

    def _recipe(self, trainer: Defaults, config_name: str, version: str) -> Recipe | None:
        """The recipe that the keys or ``--config-name`` tell."""
        recipe = named(config_name, version)
        if recipe is None and self.composition.recipes:
            recipe = recognise(self._unmarked(), dict(trainer.tree), version, known_elsewhere=releases_with)
        return recipe

    def _unmarked(self) -> list[Path]:
        """The user's keys without those that a '+' marks as new."""
        overrides = self.arguments.overrides
        changed = [split_key(item.key) for item in overrides if item.kind is Kind.CHANGE]
        documents = self.composition.documents
        return changed + [path for document in documents for path, _value in leaves(document.tree) if path]


def _laid(trainer: Defaults, name: str, tree: Tree) -> tuple[Defaults, Base]:
    """The defaults of a configuration that lays keys of its own on the trainer's."""
    keys = tuple(dotted(path) for path, _ in leaves(tree))
    base = Base(name=name, words=(f"--config-name={name}",), keys=keys)
    return replace(trainer, tree=merged(dict(trainer.tree), tree)), base


def _base(defaults: Defaults) -> Base:
    """How these defaults are asked for again."""
    if defaults.config == CONFIGS[0]:
        return Base(name=defaults.config, keys=(_STRATEGY,))
    grouped = contains(defaults.tree, (_ENGINE,))  # since 0.7 the engine is a config group
    words = (f"{_ENGINE}={defaults.tree[_ENGINE]}",) if grouped else (f"--config-name={defaults.config}",)
    return Base(name=defaults.config, words=words, keys=(_STRATEGY,))


def parse(document: Document | None, given: Sequence[Argument]) -> UserConfiguration:
    """Take a configuration file, the arguments of a launch, or both.

    Args:
        document: a composed or partial YAML file; None for arguments alone.
        given: arguments as Hydra would get them.

    Raises:
        InputError: a file that the document names or an argument is malformed.
        UnsupportedError: the configuration is for another entry point of verl, or larger than any is.
    """
    expect_few(len(given), given[-1].location if given else None)
    arguments = parse_overrides(given)
    composition = _composition(document)
    keys = _user_locations(composition.documents, arguments.overrides)
    expect_few(len(keys), next(reversed(keys.values()), None))
    refuse_other_entry_points(keys)
    return UserConfiguration(composition=composition, arguments=arguments, keys=keys)


def _composition(document: Document | None) -> Composition:
    if document is None:
        return Composition()
    if document.printed:
        own, config, of_recipe = as_set(document)
        return Composition(documents=(own,), config=config, recipes=of_recipe)
    return follow(document)


def _user_locations(documents: Sequence[Document], overrides: Sequence[Override]) -> dict[Path, Location]:
    """Every key that the user sets, and where."""
    locations = {
        path: document.location(*path)
        for document in documents
        for path, _value in leaves(document.tree)
        if path
    }
    for override in overrides:
        if override.package is None:
            locations[split_key(override.key)] = override.location
    return locations
