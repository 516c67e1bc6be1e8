"""The configuration that a launch has Hydra compose: one of verl's, a file in its tree, or a missing one."""

from collections.abc import Callable, Sequence
from os.path import normpath
from pathlib import Path as FilePath

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there
from tuner.inputs.overrides import COMMAND_LINE, Argument, Arguments, option_value
from tuner.inputs.program.find import file_of_program, starting_folders
from tuner.inputs.program.named_config import NamedConfig, named_config
from tuner.inputs.user_input import MissingConfiguration
from tuner.inputs.yaml_file import Document, read_yaml
from tuner.language import _
from tuner.trainers.verl.defaults import CONFIGS, FINE_TUNING_CONFIGS
from tuner.trainers.verl.defaults_list import Composition
from tuner.trainers.verl.entry_points import program_started, refuse_config
from tuner.trainers.verl.example_configs import example_config
from tuner.trainers.verl.forks.fork import Fork
from tuner.trainers.verl.imported_copy import program_of_copy
from tuner.trainers.verl.merged_by_program import MergedByProgram
from tuner.trainers.verl.named_files import CONFIG_FOLDERS, below_clone, beside_launch
from tuner.trainers.verl.programs import runs_ppo_trainer
from tuner.trainers.verl.recipes import named as recipe_named
from tuner.trainers.verl.required_release import RequiredRelease, required_release

_TRAINER = "verl.trainer.main_ppo"
_OF_VERL = "/trainer/config"  # ends the path of the folder in verl that has its configurations


class ProgramStart(Struct, frozen=True, kw_only=True):
    """What starts a program, as far as it tells where files are looked for."""

    program: str = ""  # a module, or the path of a file; empty where nobody says
    beside: str = ""  # the folder that it lies in, or is typed in; empty where nobody says
    python_path: tuple[str, ...] = ()  # that it starts the program in, and has Python look for modules in
    package: FilePath | None = None  # that a script puts under verl's name

    def named(self, given: Sequence[Argument]) -> NamedConfig | None:
        """The configuration that it names with its arguments, where the program's file is in the tree."""
        program = program_of_copy(self.program, self.package)
        return named_config(program, given, folder=self.beside, folders=self.python_path)

    def below_clone(self, name: str, given: Sequence[Argument]) -> Document | None:
        """The file of a configuration in the folder that an option names, wherever the tree was cloned to."""
        path = option_value(given, "config_path")
        if path is None:
            return None
        return below_clone(name, path.text, starting_folders(self.beside, self.python_path))


class Primary(Struct, frozen=True, kw_only=True):
    """Where the configuration of a launch stands, and what its files say."""

    name: str | None = None  # without ".yaml"; None where nobody names one
    by_code: bool = False  # the program's code names it, and no option
    document: Document | None = None  # of the user's own file
    tops: tuple[FilePath, ...] = ()  # folders in which a defaults list looks beside that of the document
    composition: Composition = Composition()
    folder: str = ""  # in which a copy of verl's own configuration lies first
    required: RequiredRelease | None = None  # that the recipe is written for
    looked_in: str = ""  # where Hydra looks for the document, which lies elsewhere in the tree
    missing: MissingConfiguration | None = None  # what the launch names and no file has
    by_program: bool = False  # its code lays files and arguments together, in which any key may be new

    @property
    def is_whole(self) -> bool:
        """Whether Hydra has the file in the tree alone, which rests on no other."""
        return bool(self.laid_on) and self.document is not None and "defaults" not in self.document.tree

    @property
    def laid_on(self) -> str:
        """The file in the tree that Hydra lays the overrides on; empty where there is none."""
        return self.document.source if self.document is not None and self.tops else ""


def is_of_verl(name: str) -> bool:
    """Whether a configuration of this name is among those of verl's trainers."""
    return name in (*CONFIGS, *FINE_TUNING_CONFIGS)


def _is_in_verl(name: str, start: ProgramStart, given: Sequence[Argument]) -> bool:
    """Whether verl's own configuration is meant: its name, in no folder of the launch's own.

    Hydra reads a relative path from the folder of the program's module.
    """
    path = option_value(given, "config_path")
    if path is None or not is_of_verl(name):
        return is_of_verl(name)
    text = path.text.removeprefix("pkg://")
    if text != path.text:
        text = text.replace(".", "/")
    else:
        module = (start.program or _TRAINER).removesuffix(".py").replace(".", "/")
        text = f"{module.rpartition('/')[0]}/{text}"
    return f"/{normpath(text)}".endswith(_OF_VERL)


def primary_of(
    start: ProgramStart,
    given: Sequence[Argument],
    arguments: Arguments,
    document: Document | None,
    fork: Fork | None,
    compose: Callable[[Document | None, Sequence[FilePath]], Composition],
) -> tuple[Primary, Arguments]:
    """The configuration of a launch, and its arguments with the name of verl's that it rests on.

    Args:
        start: what starts the program.
        given: the program's arguments.
        arguments: the same, read.
        document: a file that was given beside them.
        fork: the project that the launch is for.
        compose: reads what a file names beside it.

    Raises:
        InputError: the file is malformed.
        UnsupportedError: the configuration is that of another entry point.
    """
    primary = _named_in(start, given, arguments)
    if primary.document is None and document is not None:
        primary = replace(primary, document=document)
    primary, arguments = _with_named(primary, arguments, fork, start, given)
    if not primary.tops and primary.document is not None and _is_read_alone(primary.document, start, given):
        primary = replace(primary, tops=(FilePath(primary.document.source).parent,))
    primary = _composed(primary, compose, start.program)
    if primary.missing is None and arguments.config_name is not None and primary.composition.empty:
        primary = replace(primary, missing=_missing(start, given, arguments.config_name))
    return primary, arguments


def primary_of_merged(start: ProgramStart, merged: MergedByProgram) -> Primary:
    """The configuration that a program merges by its own code, on which no file of the trainer's lies.

    Args:
        start: what starts the program.
        merged: what its code lays together.
    """
    document = merged.laid
    return Primary(
        document=document,
        tops=() if document is None else (FilePath(document.source).parent,),
        composition=Composition(documents=() if document is None else (document,), recipes=False),
        folder=_folder_of_verl(start, None),
        required=_required(start, None),
        missing=merged.missing,
        by_program=True,
    )


def _named_in(start: ProgramStart, given: Sequence[Argument], arguments: Arguments) -> Primary:
    """The configuration that the options or the program's code name, with its file where the tree has it."""
    named = start.named(given)
    typed = None if arguments.config_name is None else arguments.config_name.removesuffix(".yaml")
    asked = typed if typed is not None or named is None else named.name
    primary = Primary(
        name=asked,
        by_code=typed is None and asked is not None,
        folder=_folder_of_verl(start, named),
        required=_required(start, named),
    )
    if named is not None and not named.settled:
        return replace(primary, missing=_computed(named))
    if asked is None or is_of_verl(asked) or named is None or named.file is None:
        return primary
    return _laid_on(primary, named)


def _with_named(
    primary: Primary,
    arguments: Arguments,
    fork: Fork | None,
    start: ProgramStart,
    given: Sequence[Argument],
) -> tuple[Primary, Arguments]:
    """The user's own file that is named; the name is kept where it is one of verl's."""
    name = primary.name
    if name is None:
        return primary, arguments
    refuse_config(name, Location(source=COMMAND_LINE))
    if primary.by_code and is_of_verl(name):
        return primary, replace(arguments, config_name=None if name == CONFIGS[0] else name)
    typed = arguments if arguments.config_name is not None else replace(arguments, config_name=name)
    if _is_in_verl(name, start, given) or recipe_named(name) is not None:
        return primary, typed
    if primary.document is None:
        primary = replace(primary, document=beside_launch(name, start.beside))
    if primary.document is None and (document := start.below_clone(name, given)) is not None:
        primary = replace(primary, document=document, tops=(FilePath(document.source).parent,))
    if primary.document is None and (fork is None or name not in fork.configs):
        return primary, typed
    if is_of_verl(name):
        return primary, typed
    megatron = primary.document is None and "megatron" in name
    return primary, replace(arguments, config_name=CONFIGS[1] if megatron else None)


def _is_read_alone(document: Document, start: ProgramStart, given: Sequence[Argument]) -> bool:
    """Whether an absolute path on the command line has verl's program read a file that rests on no other."""
    path = option_value(given, "config_path")
    if path is None or "defaults" in document.tree or not runs_ppo_trainer(start.program):
        return False
    folder = FilePath(path.text)
    return folder.is_absolute() and normpath(folder) == normpath(FilePath(document.source).absolute().parent)


def _composed(
    primary: Primary, compose: Callable[[Document | None, Sequence[FilePath]], Composition], program: str
) -> Primary:
    """The configuration with its files on one another.

    A file may have whatever keys it likes, those of a recipe among them: verl's own program runs its PPO
    trainer all the same. A file that only the program's code names is no word of the user: one that cannot
    be composed is missing.
    """
    try:
        composition = compose(primary.document, primary.tops)
        # Its program is the one that was named, whatever keys it has.
        if primary.is_whole or (primary.document is not None and runs_ppo_trainer(program)):
            composition = replace(composition, recipes=False)
        return replace(primary, composition=composition)
    except InputError as error:
        if not primary.by_code or primary.document is None:
            raise
        missing = MissingConfiguration(
            name=primary.name or "",
            looked_in=(str(FilePath(primary.document.source).parent),),
            reason=str(error),
            location=error.location or Location(source=primary.document.source),
        )
        return replace(primary, document=None, missing=missing)


def _required(launch: ProgramStart, named: NamedConfig | None) -> RequiredRelease | None:
    """The release that the file beside the launch or its program asks for."""
    if not launch.program:
        return None
    folders = [FilePath(launch.beside)] if launch.beside else []
    return required_release([*folders, *([] if named is None else [named.program.parent])])


def _laid_on(primary: Primary, named: NamedConfig) -> Primary:
    assert named.file is not None  # asked for by whoever calls
    places = (named.file.parent, *named.folders, *named.starts)
    tops = tuple(place for place in places if is_there(place, FilePath.is_dir))
    looked_in = str(named.folders[0]) if named.elsewhere and named.folders else ""
    return replace(primary, document=read_yaml(named.file), tops=tops, looked_in=looked_in)


def _missing(launch: ProgramStart, given: Sequence[Argument], name: str) -> MissingConfiguration | None:
    """What is missing of a configuration whose file is not there; None of one that verl has.

    Args:
        launch: what starts the program.
        given: its arguments.
        name: of the configuration, as it is typed.
    """
    stem = name.removesuffix(".yaml")
    if _is_in_verl(stem, launch, given) or _is_shipped(stem):
        return None
    named = launch.named(given)
    if named is not None:
        return MissingConfiguration(
            name=name,
            looked_in=tuple(map(str, named.folders)),
            reason="",
            location=named.location,
        )
    option, path = option_value(given, "config_name"), option_value(given, "config_path")
    places = starting_folders(launch.beside, launch.python_path)
    below = CONFIG_FOLDERS if path is None or "$" in path.text else (path.text,)
    return MissingConfiguration(
        name=name,
        looked_in=tuple(normpath(place / folder) for place in places for folder in below),
        reason="",
        location=Location(source=COMMAND_LINE) if option is None else option.location,
    )


def _is_shipped(stem: str) -> bool:
    """Whether verl has a configuration of this name, beside those of its trainers."""
    of_others = example_config(stem) is not None or recipe_named(stem) is not None
    return of_others or (not is_of_verl(stem) and program_started("", stem) is not None)


def _computed(named: NamedConfig) -> MissingConfiguration:
    return MissingConfiguration(
        name="",
        looked_in=tuple(map(str, named.folders)),
        reason=_("the code of {program} computes which one it is").format(program=named.program),
        location=named.location,
    )


def _folder_of_verl(launch: ProgramStart, named: NamedConfig | None) -> str:
    """The folder of verl's own configuration that the launch reads; that of the launch where none is seen."""
    if named is not None and named.file is not None and is_of_verl(named.name or ""):
        return str(named.file.parent)
    if launch.package is not None:
        return str(launch.package / "trainer" / "config")
    if launch.program:
        verl = file_of_program(_TRAINER, starting_folders(launch.beside, launch.python_path))
        if verl is not None and is_there(folder := verl.parent / "config", FilePath.is_dir):
            return str(folder)
    return launch.beside
