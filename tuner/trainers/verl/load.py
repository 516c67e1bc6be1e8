"""Takes a user's files and arguments, whatever project they are for."""

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.inputs.overrides import (
    COMMAND_LINE,
    Argument,
    Arguments,
    option_value,
)
from tuner.inputs.tree import Path, leaves, split_key
from tuner.inputs.user_input import MissingConfiguration
from tuner.inputs.yaml_file import Document
from tuner.override_text import override_key
from tuner.trainers.verl.arguments import parsed, user_locations
from tuner.trainers.verl.defaults import CONFIGS
from tuner.trainers.verl.defaults_list import Composition, follow
from tuner.trainers.verl.entry_points import (
    OWN_SECTIONS,
    program_of_keys,
    program_started,
    refuse_config,
    refuse_other_entry_points,
)
from tuner.trainers.verl.forks import is_borne_out, is_told_by_launch
from tuner.trainers.verl.forks import recognise as recognise_fork
from tuner.trainers.verl.forks.fork import Fork
from tuner.trainers.verl.forks.translate import (
    translated,
)
from tuner.trainers.verl.limits import expect_few
from tuner.trainers.verl.primary import Primary, ProgramStart, is_of_verl, missing_configuration, primary_of
from tuner.trainers.verl.programs import Program
from tuner.trainers.verl.recipes import named as recipe_named
from tuner.trainers.verl.recipes import started_as
from tuner.trainers.verl.trainer_code.find import code_around
from tuner.trainers.verl.user_configuration import UserConfiguration

if TYPE_CHECKING:
    from tuner.inputs.user_input import Processes


def parse(
    document: Document | None,
    given: Sequence[Argument],
    *,
    program: str = "",
    folder: str = "",
    processes: "Processes | None" = None,
    folders: Sequence[str] = (),
) -> UserConfiguration:
    """Take a configuration file, the arguments of a launch, or both.

    Args:
        document: a composed or partial YAML file; None for arguments alone.
        given: arguments as Hydra would get them.
        program: the module or file that the launch starts; empty where nobody says.
        folder: where the configuration lies or is typed; empty where nobody says.
        processes: how many of them a launch starts, where it says so; fine-tuning has a GPU for each.
        folders: that the launch starts the program in, and has Python look for modules in.

    Raises:
        InputError: a file that the document names or an argument is malformed.
        UnsupportedError: the configuration is for another entry point of verl, or larger than any is.
    """
    expect_few(len(given), given[-1].location if given else None)
    launch = ProgramStart(program=program, beside=folder, python_path=tuple(folders))
    config_name = option_value(given, "config_name")
    trainer = program_started(program, None if config_name is None else config_name.text)
    fork = None if trainer is not None else _fork_of(document, given, program, folder)
    if fork is not None and fork.config_argument is not None:
        from tuner.trainers.verl.named_files import with_config_file

        document, given = with_config_file(fork, document, given, folder)
    arguments = parsed(given, fork)
    primary = primary_of(launch, given, _stem(arguments))
    if primary.document is None and document is not None:
        primary = replace(primary, document=document)
    primary, arguments = _with_named(primary, arguments, fork, folder)
    composition, primary = _composed(primary, fork)
    keys = user_locations(composition.documents, arguments.overrides)
    expect_few(len(keys), next(reversed(keys.values()), None))
    if fork is None:
        by_name = program_started("", composition.config) or program_started("", primary.name)
        trainer = trainer or by_name or _program_of(composition, keys)
        if not trainer.fine_tunes:
            refuse_other_entry_points(keys)
    return UserConfiguration(
        composition=composition,
        arguments=arguments,
        keys=keys,
        program=program,
        folder=primary.folder,
        fork=fork,
        started=trainer or Program.PPO,
        processes=processes,
        required=primary.required,
        laid_on=primary.laid_on,
        declares=bool(program or primary.name),
        missing=primary.missing or _missing(launch, given, arguments, composition),
    )


def _stem(arguments: Arguments) -> str | None:
    """The name of the configuration that is asked for."""
    return None if arguments.config_name is None else _stem_of(arguments.config_name)


def _stem_of(name: str | None) -> str:
    return (name or "").removesuffix(".yaml")


def _missing(
    launch: ProgramStart, given: Sequence[Argument], arguments: Arguments, composition: Composition
) -> MissingConfiguration | None:
    """What is missing where the launch names a configuration and no file has it."""
    if arguments.config_name is None or not composition.empty:
        return None
    return missing_configuration(launch, given, arguments.config_name)


def _composed(primary: Primary, fork: Fork | None) -> tuple[Composition, Primary]:
    """The user's files on one another.

    A file that only the program's code names is no word of the user: one that cannot be composed is missing.
    """
    try:
        return _composition(primary.document, fork, primary.tops), primary
    except InputError as error:
        if not primary.by_code or primary.document is None:
            raise
        missing = MissingConfiguration(
            name=primary.name or "",
            looked_in=(str(FilePath(primary.document.source).parent),),
            reason=str(error),
            location=error.location or Location(source=primary.document.source),
        )
        return Composition(), replace(primary, document=None, missing=missing)


def recognises(document: Document | None, given: Sequence[Argument], *, program: str) -> bool:
    """Whether a configuration by its keys, or the program of a launch, is surely for verl or a fork of it."""
    if program.replace("/", ".").lstrip(".").startswith("verl.") or program_started(program, None):
        return True
    keys = (split_key(override_key(argument.text)) for argument in given)
    sections = {key[0] for key in keys if key}
    sections.update({} if document is None else map(str, document.tree))
    if not sections.isdisjoint(OWN_SECTIONS):
        return True
    return _fork_of(document, given, program) is not None


def _program_of(composition: Composition, keys: Mapping[Path, Location]) -> Program:
    return Program.PPO if composition.config is not None else program_of_keys(keys)


def _composition(document: Document | None, fork: Fork | None, tops: Sequence[FilePath] = ()) -> Composition:
    if document is None:
        return Composition()
    if fork is not None:  # what such a project prints is held against no release: every setting counts as set
        composition = follow(document, tops)
        documents = tuple(translated(fork, part) for part in composition.documents)
        return replace(composition, documents=documents)
    if document.printed:
        from tuner.trainers.verl.printed_configuration import (
            as_set,
            release_of_printed,
        )  # no other input asks for it

        own, config, of_recipe = as_set(document)
        release = release_of_printed(document)
        return Composition(documents=(own,), config=config, recipes=of_recipe, release=release)
    return follow(document, tops)


def _fork_of(
    document: Document | None, given: Sequence[Argument], program: str, folder: str = ""
) -> Fork | None:
    """The project that a launch is for; keys tell one only where the code that would run has most of them."""
    keys = [path for path, _value in leaves({} if document is None else document.tree)]
    keys += [split_key(override_key(argument.text)) for argument in given]
    name = option_value(given, "config_name")
    text = None if name is None else name.text
    if started_as(program) is not None or (not program and recipe_named(_stem_of(text)) is not None):
        text = None  # a program of verl's own decides before a name, which projects have in common with it
    fork = recognise_fork(program, text, keys)
    if fork is None or is_told_by_launch(fork, program, text) or not folder:
        return fork
    code = code_around(FilePath(folder).absolute())
    return fork if code is None or is_borne_out(fork, code) else None


def _with_named(
    primary: Primary, arguments: Arguments, fork: Fork | None, folder: str
) -> tuple[Primary, Arguments]:
    """The user's own file that is named; the name is kept where it is one of verl's."""
    name = primary.name
    if name is None:
        return primary, arguments
    refuse_config(name, Location(source=COMMAND_LINE))
    if primary.by_code and is_of_verl(name):
        return primary, replace(arguments, config_name=None if name == CONFIGS[0] else name)
    typed = arguments if arguments.config_name is not None else replace(arguments, config_name=name)
    if is_of_verl(name) or recipe_named(name) is not None:
        return primary, typed
    if primary.document is None:
        from tuner.trainers.verl.named_files import beside_launch

        primary = replace(primary, document=beside_launch(name, folder))
    if primary.document is None and (fork is None or name not in fork.configs):
        return primary, typed
    megatron = primary.document is None and "megatron" in name
    return primary, replace(arguments, config_name=CONFIGS[1] if megatron else None)
