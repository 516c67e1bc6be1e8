"""Lays a user's files and overrides on the defaults of a verl release."""

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path as FilePath

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import Location, UnsupportedError
from tuner.inputs.given import Remark
from tuner.inputs.overrides import (
    COMMAND_LINE,
    Argument,
    Arguments,
    Kind,
    Override,
    on_command_line,
    option_value,
    parse_overrides,
)
from tuner.inputs.settings import Layer, Origin, Program, Settings, UnknownKey
from tuner.inputs.tree import Path, contains, dotted, leaves, merged, shown, split_key
from tuner.inputs.yaml_file import Document
from tuner.language import _
from tuner.trainers.protocol import Base, Loaded, ReleaseChoice
from tuner.trainers.verl.backend import choose_config
from tuner.trainers.verl.defaults import CONFIGS, Defaults, read_defaults
from tuner.trainers.verl.defaults_list import Composition, follow
from tuner.trainers.verl.entry_points import refuse_config, refuse_other_entry_points
from tuner.trainers.verl.fingerprint import Likeness, composed_like
from tuner.trainers.verl.forks import recognise as recognise_fork
from tuner.trainers.verl.forks.fork import Fork
from tuner.trainers.verl.forks.translate import (
    completed,
    dotlist,
    known_keys,
    spelled_override,
    translated,
    translated_overrides,
)
from tuner.trainers.verl.layers import Layers
from tuner.trainers.verl.named_files import beside_launch, with_config_file
from tuner.trainers.verl.private_defaults import PrivateDefaults, private_defaults
from tuner.trainers.verl.recipe import Recipe
from tuner.trainers.verl.recipes import named, recognise, started_as
from tuner.trainers.verl.releases import BUNDLED, installed_release
from tuner.trainers.verl.schema import Schema, releases_with

_STRATEGY = "actor_rollout_ref.actor.strategy"
_ENGINE = "model_engine"


class UserConfiguration(Struct, frozen=True, kw_only=True, dict=True):
    """What the user gives, before it is laid on the defaults of a release."""

    composition: Composition
    arguments: Arguments
    keys: dict[Path, Location]
    program: str = ""  # the module or file that the launch starts; empty where nobody says
    folder: str = ""  # where the configuration lies, or is typed; empty where nobody says
    fork: Fork | None = None  # the project that it is for, where that is not verl itself

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
        more = _parsed(on_command_line(overrides), self.fork).overrides
        arguments = replace(self.arguments, overrides=(*self.arguments.overrides, *more))
        keys = _user_locations(self.composition.documents, arguments.overrides)
        return replace(self, arguments=arguments, keys=keys)

    def on(self, version: str) -> Loaded:
        """Lay what the user gives on the defaults of a bundled release.

        Raises:
            InputError: a section is given a plain value.
            UnsupportedError: the configuration is for another engine of verl.
        """
        defaults, recipe = self._defaults(version)
        layers = Layers(dict(defaults.tree), Schema(self._known(defaults)))
        for document in self.composition.documents:
            layers.add_document(document)
        for override in self.arguments.overrides:
            layers.add_override(override)
        settings = Settings(
            tree=layers.tree,
            defaults=dict(defaults.tree),
            origins=layers.origins,
            default_origin=Origin(layer=Layer.DEFAULT, text=self._default_origin(version)),
            unknown=tuple(map(self._of_fork, layers.unknown())),
        )
        if self.fork is not None:
            program = Program(
                name=self.fork.name,
                spell=partial(spelled_override, self.fork),
                unchecked=self.fork.unchecked,
            )
            settings = completed(self.fork, replace(settings, program=program))
        return Loaded(settings=settings, version=version, base=_base(defaults, recipe))

    def _defaults(self, version: str) -> tuple[Defaults, Recipe | None]:
        """Those of the trainer, with those of the recipe that the keys or ``--config-name`` tell."""
        trainer = read_defaults(version, self.trainer_config(version))
        private = self.private_on(version)
        if private is not None:
            trainer = replace(trainer, tree=private.tree)
        elif self.fork is not None:
            trainer = replace(trainer, tree=merged(dict(trainer.tree), self.fork.laid_on))
        config_name = (self.arguments.config_name or "").removesuffix(".yaml")
        recipe = named(config_name, version) or started_as(self.program, version)
        if recipe is None and trainer.config == CONFIGS[0] and self.fork is None:
            recipe = recognise(self._unmarked(), dict(trainer.tree), version, known_elsewhere=releases_with)
        if recipe is None:
            return trainer, None
        return replace(trainer, tree=merged(dict(trainer.tree), recipe.tree)), recipe

    @property
    def release(self) -> ReleaseChoice | None:
        """The release that the configuration itself tells; None where it tells none."""
        likeness = self._likeness()
        if self.fork is not None:
            version = self.fork.release if likeness is None else likeness.version
            reason = _("{fork} runs a copy of verl that is like it").format(fork=self.fork.name)
            return ReleaseChoice(version=version, reason=reason, certain=True)
        if likeness is None:
            recipe = started_as(self.program)
            if recipe is None or not recipe.release:
                return None
            reason = _("the release that {program} is written for").format(program=self.program)
            return ReleaseChoice(version=recipe.release, reason=reason)
        reason = _("the release that {file} is most like: {differences}").format(
            file=self._likened(), differences=likeness.differences()
        )
        return ReleaseChoice(version=likeness.version, reason=reason)

    def remarks(self, version: str) -> tuple[Remark, ...]:
        """What was taken to be so when the configuration was laid on the defaults of a release."""
        texts: list[str] = []
        if self.fork is not None:
            texts.append(_("read as {fork}").format(fork=self.fork.name))
            texts += [_(note) for note in self.fork.notes]
        private = self._private(version)
        if private is not None:
            about = (
                _("laid on {file}, which is most like verl {version}: {differences}")
                if self.private_on(version) is not None
                else _("{file} is left aside, being most like verl {version}: {differences}")
            )
            texts.append(
                about.format(
                    file=private.file, version=private.version, differences=private.likeness.differences()
                )
            )
        place = next(iter(self.keys.values()), Location(source=COMMAND_LINE))
        return tuple(Remark(text=text, location=Location(source=place.source)) for text in texts)

    def private_on(self, version: str) -> PrivateDefaults | None:
        """The user's own copy of the defaults that a release is run with; another release's is left aside."""
        private = self._private(version)
        if private is None or version in (private.version, installed_release()):
            return private
        return None

    def _private(self, version: str) -> PrivateDefaults | None:
        if not self.folder or (self.fork is not None and self.fork.renames):
            return None
        if self._composed is not None:
            return None
        return private_defaults(FilePath(self.folder), self.trainer_config(version))

    @cached_property
    def _composed(self) -> Likeness | None:
        """The release that a document is most like which holds all settings of a run."""
        documents = self.composition.documents
        if not documents or (self.fork is not None and self.fork.renames):
            return None
        return composed_like(documents[-1].tree, self.trainer_config(BUNDLED[-1]))

    def _likeness(self) -> Likeness | None:
        if self._composed is not None:
            return self._composed
        private = self._private(BUNDLED[-1])
        return None if private is None else private.likeness

    def _likened(self) -> str:
        private = self._private(BUNDLED[-1])
        return self.composition.documents[-1].source if private is None else str(private.file)

    def _default_origin(self, version: str) -> str:
        private = self.private_on(version)
        if private is not None:
            return _("default of {file}").format(file=private.file)
        if self.fork is not None:
            return _("default of {fork}").format(fork=self.fork.name)
        return _("default of verl {version}").format(version=version)

    def _known(self, defaults: Defaults) -> Defaults:
        if self.fork is None or not self.fork.renames:
            return defaults
        return replace(defaults, tree=known_keys(self.fork, dict(defaults.tree)))

    def _of_fork(self, unknown: UnknownKey) -> UnknownKey:
        """The unknown key as the project's, where its keys are other than verl's."""
        if self.fork is None or not self.fork.renames:
            return unknown
        nearest = None if unknown.nearest is None else spelled_override(self.fork, unknown.nearest)
        return replace(unknown, reader=self.fork.name, nearest=nearest, refused=False, known_in=())

    def _unmarked(self) -> list[Path]:
        """The user's keys without those that a '+' marks as new."""
        overrides = self.arguments.overrides
        changed = [split_key(item.key) for item in overrides if item.kind is Kind.CHANGE]
        documents = self.composition.documents
        return changed + [path for document in documents for path, _value in leaves(document.tree) if path]


def _base(defaults: Defaults, recipe: Recipe | None) -> Base:
    """How these defaults are asked for again."""
    if recipe is not None:
        keys = tuple(dotted(path) for path, _ in leaves(recipe.tree))
        return Base(name=recipe.configs[0], words=(f"--config-name={recipe.configs[0]}",), keys=keys)
    if defaults.config == CONFIGS[0]:
        return Base(name=defaults.config, keys=(_STRATEGY,))
    grouped = contains(defaults.tree, (_ENGINE,))  # since 0.7 the engine is a config group
    words = (f"{_ENGINE}={defaults.tree[_ENGINE]}",) if grouped else (f"--config-name={defaults.config}",)
    return Base(name=defaults.config, words=words, keys=(_STRATEGY,))


def parse(
    document: Document | None, given: Sequence[Argument], *, program: str = "", folder: str = ""
) -> UserConfiguration:
    """Take a configuration file, the arguments of a launch, or both.

    Args:
        document: a composed or partial YAML file; None for arguments alone.
        given: arguments as Hydra would get them.
        program: the module or file that the launch starts; empty where nobody says.
        folder: where the configuration lies or is typed; empty where nobody says.

    Raises:
        InputError: a file that the document names or an argument is malformed.
        UnsupportedError: the configuration is for another entry point of verl.
    """
    fork = _fork_of(document, given, program)
    if fork is not None and fork.config_argument is not None:
        document, given = with_config_file(fork, document, given, folder)
    arguments = _parsed(given, fork)
    document, arguments = _with_named(document, arguments, fork, folder)
    composition = follow(document) if document is not None else Composition()
    if fork is not None:
        documents = tuple(translated(fork, part) for part in composition.documents)
        composition = replace(composition, documents=documents)
    keys = _user_locations(composition.documents, arguments.overrides)
    if fork is None:
        refuse_other_entry_points(keys)
    return UserConfiguration(
        composition=composition, arguments=arguments, keys=keys, program=program, folder=folder, fork=fork
    )


def _fork_of(document: Document | None, given: Sequence[Argument], program: str) -> Fork | None:
    keys = [path for path, _value in leaves({} if document is None else document.tree)]
    keys += [split_key(argument.text.partition("=")[0].lstrip("+~")) for argument in given]
    name = option_value(given, "config_name")
    return recognise_fork(program, None if name is None else name.text, keys)


def _parsed(given: Sequence[Argument], fork: Fork | None) -> Arguments:
    """Arguments in verl's keys, without the choices of config groups that a project has of its own."""
    if fork is None:
        return parse_overrides(given)
    if fork.config_argument is not None:
        arguments = Arguments(overrides=dotlist(given), config_name=None)
    else:
        arguments = parse_overrides(given)
    kept = [override for override in arguments.overrides if not _is_own_group(fork, override)]
    return replace(arguments, overrides=translated_overrides(fork, kept))


def _is_own_group(fork: Fork, override: Override) -> bool:
    """Whether an override chooses of a config group of the project's.

    Raises:
        UnsupportedError: with that choice the project does not train with verl.
    """
    choice = fork.groups.get(override.key)
    if choice is not None and override.value != choice:
        raise UnsupportedError(
            _("{fork} does not train with verl on {override}").format(
                fork=fork.name, override=shown(override.text)
            ),
            location=override.location,
            hint=_("advice is for {key}={choice}").format(key=override.key, choice=choice),
        )
    return choice is not None


def _with_named(
    document: Document | None, arguments: Arguments, fork: Fork | None, folder: str
) -> tuple[Document | None, Arguments]:
    """The user's own file that ``--config-name`` names; the name is kept where it is one of verl's."""
    if arguments.config_name is None:
        return document, arguments
    name = arguments.config_name.removesuffix(".yaml")
    refuse_config(name, Location(source=COMMAND_LINE))
    if name in CONFIGS or named(name) is not None:
        return document, arguments
    if document is None:
        document = beside_launch(name, folder)
    if document is None and (fork is None or name not in fork.configs):
        return document, arguments
    megatron = document is None and "megatron" in name
    return document, replace(arguments, config_name=CONFIGS[1] if megatron else None)


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
