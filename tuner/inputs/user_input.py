"""A configuration as a person gave it, whatever its form, ready for a trainer to read."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.errors import Location
from tuner.files import STANDARD_INPUT
from tuner.inputs.asked_arguments import ScriptArguments
from tuner.inputs.earlier_programs import EarlierProgram
from tuner.inputs.environment import EnvironmentVariable
from tuner.inputs.machine import GPUS, TargetMachine
from tuner.inputs.overrides import Argument
from tuner.inputs.yaml_file import Document

if TYPE_CHECKING:
    from tuner.inputs.log.run_log import RunLog
    from tuner.inputs.placed_packages import PlacedPackage
    from tuner.inputs.record.read import RunRecord


class Count(Struct, frozen=True, kw_only=True):
    """One number, and how and where it was given."""

    value: int
    text: str  # "torchrun --nproc_per_node=8"
    location: Location
    told: bool = True  # else it is what the launcher, which the text names, does of its own accord
    yields: bool = False  # to a number that an option says


class OpenArgument(Struct, frozen=True, kw_only=True):
    """An argument of a launch script that only a run of it would tell; it was left out."""

    key: Annotated[str, Meta(description="empty where not even the key is known")]
    text: Annotated[str, Meta(description="as the script has it")]
    name: str  # the variable that settles it; empty where none does
    location: Location


class Processes(Struct, frozen=True, kw_only=True):
    """The processes of a launch; None where it does not say."""

    per_node: Count | None = None
    nodes: Count | None = None
    visible: Count | None = None  # accelerators of a node that the launch shows to them
    ray_apart: bool = False  # the script starts a Ray beside them, or hands them to one that runs
    open_per_node: OpenArgument | None = None  # the launch says how many, by what only a run would tell


class Remark(Struct, frozen=True, kw_only=True):
    """Something that was taken to be so when a launch script was followed."""

    text: str
    location: Location


class SideServer(Struct, frozen=True, kw_only=True):
    """A program that a script starts on GPUs before the trainer: it takes memory that nobody counts."""

    name: str  # what is called: a command, a module or the name of a file
    location: Location
    devices: frozenset[str] | None = None  # accelerators that it sees, where the script says


class AlternativeLaunch(Struct, frozen=True, kw_only=True):
    """A job that a script would start instead, if a test that nobody knows ended otherwise."""

    test: Annotated[str, Meta(description="as the script has it")]
    is_program: Annotated[bool, Meta(description="the test is whether this program succeeds")]
    name: str  # the variable that settles it; empty where none does
    location: Annotated[Location, Meta(description="of the test")]
    holds: Annotated[bool, Meta(description="how the test ends on this way")]
    program: Annotated[str, Meta(description="that is started on this way")]
    arguments: tuple[Argument, ...]  # that it gets, with a word in place of what is not known in them
    changes: tuple[tuple[str, str | None, str | None], ...]
    """Each key that differs, with its value as it is read and as it is on this way; None where it is not set.

    The key of the program is empty, and that of its processes ``--nproc_per_node``.
    """


class LostOverride(Remark, frozen=True, kw_only=True):
    """An override that a script has and that never reaches the trainer."""

    command: Location  # the line that the shell takes for a command of its own; one may begin several


class MissingConfiguration(Struct, frozen=True, kw_only=True):
    """A configuration that a launch names and that is not here: the trainer's own is taken meanwhile."""

    name: Annotated[str, Meta(description="empty where only a run of the program would tell")]
    looked_in: Annotated[tuple[str, ...], Meta(description="folders, the one that decides first")]
    reason: Annotated[str, Meta(description="empty where no folder has the file")]
    location: Annotated[Location, Meta(description="of what names it")]


class UnreadFile(Struct, frozen=True, kw_only=True):
    """A file that a script has a program read, and the settings of the launch that it alone tells."""

    name: str
    location: Location  # of the command that reads it
    settings: frozenset[str]


class UserInput(Struct, frozen=True, kw_only=True):
    """A configuration as it was given, ready for a trainer to read."""

    source: str  # names it in the answer
    document: Document | None = None
    arguments: tuple[Argument, ...] = ()
    unsettled: tuple[OpenArgument, ...] = ()
    open_paths: tuple[OpenArgument, ...] = ()  # files in a folder that a variable names which nobody sets
    remarks: tuple[Remark, ...] = ()
    not_followed: tuple[Remark, ...] = ()  # what of the reading rests on something that is not run
    alternatives: tuple[AlternativeLaunch, ...] = ()  # jobs that a script would start instead
    lost: tuple[LostOverride, ...] = ()
    missing: MissingConfiguration | None = None  # what the settings should rest on and cannot
    settings_file: UnreadFile | None = None  # from which a script itself takes settings of the launch
    machine: TargetMachine = GPUS  # that a script was read for
    assumed_cards: int | None = None  # of a node, which it counts itself and nobody says
    log: "RunLog | None" = None  # what else the log says that the configuration was read from
    log_source: str = ""  # the file of the log, where it stands beside a configuration or a script
    of_log: tuple[Remark, ...] = ()  # settings that were taken from the log, and why
    record: "RunRecord | None" = None  # of the run whose configuration it is, where its workers left one
    program: str = ""  # the module or file that a command or script starts; empty where none is seen
    processes: "Processes | None" = None  # that a command or script starts, where it says how many
    folder: str = ""  # where it lies or is typed: what it names is looked for there; empty for standard input
    folders: tuple[str, ...] = ()  # that a script starts the program in, and has Python look for modules in
    placed: "tuple[PlacedPackage, ...]" = ()  # that a script puts where Python looks for modules
    asked_for: ScriptArguments | None = None  # what a script says of the arguments that it takes
    servers: tuple[SideServer, ...] = ()  # that a script starts before, and that may be on the same GPUs
    environment: tuple[EnvironmentVariable, ...] = ()  # that a script gives the program
    earlier: tuple[EarlierProgram, ...] = ()  # that a script runs before, and that may change a model
    fine_tuned: tuple[EarlierProgram, ...] = ()  # launches of a script before, whose model this one may read
    text: str = ""  # what was read; empty of a command as it is typed and of a log
    said: tuple[
        tuple[str, str | int | float], ...
    ] = ()  # premises that the input itself has, by their fields
    models: tuple[tuple[str, dict[str, Any]], ...] = ()  # that the input itself describes, by their names
    launch: int = 1  # which one of a script it is
    within: bool = False  # the launch stands inside of a file for another program

    @property
    def open_keys(self) -> frozenset[str]:
        """The keys that the arguments do not settle: nobody knows their values, or another way has others."""
        changed = {key for way in self.alternatives for key, _here, _there in way.changes}
        return frozenset(changed | {argument.key for argument in self.unsettled})


def with_shown_lost(given: UserInput, shown: Callable[[str], str]) -> UserInput:
    """What was given, with the overrides that are lost as they may be shown."""
    if not given.lost:
        return given
    return replace(given, lost=tuple(replace(lost, text=shown(lost.text)) for lost in given.lost))


def folder_of(source: str) -> str:
    """The folder of a file, in which what it names is looked for; empty for standard input."""
    return "" if source == STANDARD_INPUT else str(Path(source).absolute().parent)
