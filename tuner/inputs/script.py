"""Reads a launch script: the programs that it would start, with the arguments that they would get."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace as replaced
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.inputs.asked_arguments import ScriptArguments
from tuner.inputs.configuration_writers import without_writers
from tuner.inputs.execution_paths import ExecutionPath, execution_paths
from tuner.inputs.machine import TargetMachine, target_machine
from tuner.inputs.overrides import CONFIG_NAME, Argument
from tuner.inputs.script_arguments import arguments_of, further_arguments, with_open_values
from tuner.inputs.secrets import is_carried
from tuner.inputs.shell.effort import TooMuchError
from tuner.inputs.shell.interpreter import Interpreter, too_much
from tuner.inputs.shell.launches import Launch, launches
from tuner.inputs.shell.respelling import PLACEHOLDER
from tuner.inputs.shell.scope import Assumed, Scope
from tuner.inputs.shell.source import MOST_BYTES, Source, parse_to_follow
from tuner.inputs.shell.started_program import StartedProgram
from tuner.inputs.shell.undecided_parts import UndecidedPart, together
from tuner.inputs.shell.values import Text, Unknown, text
from tuner.inputs.started_instead import StartedInstead, started_instead
from tuner.inputs.user_input import LostOverride
from tuner.language import _, chosen
from tuner.units import KIB

if TYPE_CHECKING:
    from tuner.inputs.shell.unclosed import Unclosed

_OVERRIDE = re.compile(r"(?:\+{0,2}[A-Za-z_][\w/@]*(?:\.[\w@/-]+)+=|~[A-Za-z_][\w/@]*(?:\.[\w@/-]+)+(?:=|$))")
_PLAIN_OVERRIDE = re.compile(r"[a-z_][a-z0-9_]*=")  # of a key without sections
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_ARGUMENT = re.compile(rb"\$\{?[#1-9]")
_BY_SLURM = b"#SBATCH"
_LARGEST_TRIED = 64 * KIB  # of a script that is followed once for each number of arguments
_MOST_OPTIONAL = 8
_FOLDERS_UP = 8  # above the script, in which a file that it names is looked for

_Find = Callable[[str], tuple[str, bytes] | None]
"""The name and the content of a file that a script names; None where there is none."""


class Script(Struct, frozen=True, kw_only=True):
    """What a launch script does, as far as it can be told without running it."""

    launches: tuple[Launch, ...]  # programs that get Hydra overrides
    assumed: tuple[Assumed, ...]
    not_read: tuple[Unknown, ...]  # files that it sources and that are not to be had
    given_up: tuple[UndecidedPart, ...]  # loops without an end, and commands that other commands print
    in_doubt: tuple[UndecidedPart, ...]  # what is not run that decides on commands which may be launches
    lost: tuple[LostOverride, ...]
    steps: int  # that following it took, with all that were tried
    optional: tuple[str, ...] = ()  # variables that nobody sets, and that the script takes for empty then
    nameless: tuple[str, ...] = ()  # variables that nobody sets, and that stand for a program with overrides
    paths: tuple[ExecutionPath, ...] = ()  # that it goes where a test ends otherwise
    forced: tuple[UndecidedPart, ...] = ()  # tests that are taken to end as they have to for a launch
    placeholders: tuple[Unknown, ...] = ()  # unquoted, at which bash itself stops
    unclosed: "Unclosed | None" = None  # a command without an end, before which bash stops
    arguments: ScriptArguments = ScriptArguments()  # that it takes
    instead: tuple[StartedInstead, ...] = ()  # what it starts where it has no launch
    failed_at: Location | None = None  # where it surely ends itself as failed, before it starts any
    writers: tuple[Launch, ...] = ()  # programs that write the configuration which a launch reads

    @property
    def hinges(self) -> tuple[UndecidedPart, ...]:
        """The tests that decide what is launched."""
        if not self.launches:
            return tuple(cause for cause in self.in_doubt if cause.decides_way)
        return together(*(launch.hinges for launch in self.launches))


def read_script(path: Path, content: bytes, arguments: Sequence[str]) -> Script:
    """Follow a script with arguments, without running it.

    Args:
        path: of the script; files that it sources are looked for beside it and in the folders above.
        content: of the script.
        arguments: ``NAME=value`` settles a variable of the script's environment, the others are its own.
            Where none is given and the script starts nothing without, they are open.

    Raises:
        InputError: it cannot be followed to its end.
    """
    reading = _reading(path, content, tuple(arguments), target_machine(), chosen(), is_carried())
    if reading.script is None or any(_named_file(path, name) != file for name, file in reading.files.items()):
        reading.script, reading.files = None, {}

        def find(name: str) -> tuple[str, bytes] | None:
            return reading.files.setdefault(name, _named_file(path, name))

        script = _read(path, content, arguments, find)
        reading.script = replace(
            script,
            placeholders=tuple(_placeholders(str(path), content)),
            unclosed=_unclosed(parse_to_follow(str(path), content)) if script.launches else None,
        )
    return reading.script


class _Reading(Struct):
    """What was read of a script, which holds as long as the files that it names are the same."""

    script: Script | None = None
    files: dict[str, tuple[str, bytes] | None] = field(default_factory=dict)


@lru_cache(maxsize=16)  # a script is read for its launches, and with each of its fixes to try them
def _reading(
    path: Path,
    content: bytes,
    arguments: tuple[str, ...],
    machine: TargetMachine,
    language: str,
    with_secrets: bool,
) -> _Reading:
    """What was read of a script, with remarks in the language that is chosen; empty before it was read."""
    return _Reading()


def _read(path: Path, content: bytes, arguments: Sequence[str], find: _Find) -> Script:
    """Follow a script, which gets the files that it names by ``find``."""
    variables = [match for word in arguments if (match := _VARIABLE.fullmatch(word))]
    given = tuple(text(word) for word in arguments if not _VARIABLE.fullmatch(word))
    source = parse_to_follow(str(path), content)
    scope = Scope(
        script=str(path), arguments=given, machine=target_machine()
    )  # its effort is that of all tries
    if _BY_SLURM in content:
        from tuner.inputs.slurm import slurm_variables

        of_slurm = slurm_variables(content.decode("utf-8", "replace"))
        scope.variables.update((name, text(value)) for name, value in of_slurm.items())
    scope.variables.update((match[1], text(match[2])) for match in variables)
    scope.exported.update(scope.variables)
    arguments_taken = arguments_of(str(path), content) if _asks_for_arguments(content) else ScriptArguments()

    def with_open(script: Script, start: Scope) -> Script:
        launches_of = partial(_launches_on_every_way, source, find)
        filled = with_open_values(script.launches, start, arguments_taken, launches_of)
        return replace(script, launches=filled, arguments=arguments_taken.beyond(len(given)))

    as_typed = _on_every_way(source, scope, find)
    if as_typed.launches:
        return with_open(as_typed, scope)
    try:
        for further in _further_scopes(scope, as_typed, content):
            script = _on_every_way(source, further, find)
            if script.launches:
                open_ones = () if given else further.arguments
                started = (_without_open_arguments(launch, open_ones) for launch in script.launches)
                return with_open(replace(script, launches=tuple(started)), further)
        asked = _with_all_asked_for(scope, as_typed, lambda further: _on_every_way(source, further, find))
        if asked is not None:
            return with_open(*asked)
    except InputError:  # it goes on and on with them
        pass
    return as_typed


def _unclosed(source: Source) -> "Unclosed | None":
    """The first command of a script that surely has no end."""
    if not source.root.has_error:
        return None
    from tuner.inputs.shell.unclosed import unclosed  # of few scripts

    return unclosed(source)


def _placeholders(file: str, content: bytes) -> Iterator[Unknown]:
    content = content.replace(b"\r\n", b"\n")
    for match in PLACEHOLDER.finditer(content):
        line = content.count(b"\n", 0, match.start(1)) + 1
        assignment = match[1].decode("utf-8", "replace")
        yield Unknown(
            name=assignment.partition("=")[0],
            text=assignment,
            location=Location(source=file, line=line, column=1),
        )


def _launches_on_every_way(source: Source, find: _Find, scope: Scope) -> tuple[Launch, ...]:
    return _on_every_way(source, scope, find).launches


def _on_every_way(source: Source, scope: Scope, find: _Find) -> Script:
    """What a script does that starts in a scope, on the way that is read, with the others beside it."""

    def follow(decisions: Mapping[str, bool]) -> Script:
        return _followed(source, replaced(scope, decisions=decisions), find)

    first = follow({})
    paths = execution_paths(first, follow)
    if paths is None:
        return first
    try:
        read = follow(paths.decisions)
    except InputError:  # all tries together take too much
        return first
    return replace(read, launches=paths.launches, paths=paths.others, forced=paths.forced)


def _further_scopes(scope: Scope, as_typed: Script, content: bytes) -> Iterator[Scope]:
    """Scopes in which what a script may need is open: a variable that it takes for empty, or arguments."""
    path = Path(scope.script)
    for names in (*((name,) for name in as_typed.optional), as_typed.optional):
        if names:
            yield _with_open(scope, names)
    if not scope.arguments and _asks_for_arguments(content):
        for arguments in further_arguments(str(path)):
            yield replaced(scope, arguments=arguments)


def _with_open(scope: Scope, names: Sequence[str]) -> Scope:
    """A scope in which variables have values that nobody knows."""
    place = Location(source=scope.script)
    opened = {name: Text((Unknown(name=name, text=f"${name}", location=place),)) for name in names}
    return replaced(scope, variables={**scope.variables, **opened})


def _with_all_asked_for(
    scope: Scope, as_typed: Script, follow: Callable[[Scope], Script]
) -> tuple[Script, Scope] | None:
    """What a script does with all variables that it asks for one after another, and the scope it starts in.

    It ends for want of the first, and only then of the next: ``require MODEL; require DATA``. None where it
    starts nothing with all of them either.
    """
    script, names = as_typed, as_typed.optional
    while len(names) < _MOST_OPTIONAL:
        further = _with_open(scope, names)
        script = follow(further) if names else script
        if script.launches:
            return script, further
        more = tuple(name for name in script.optional if name not in names)
        if not more:
            return None
        names = (*names, *more)[:_MOST_OPTIONAL]
    further = _with_open(scope, names)
    script = follow(further)
    return (script, further) if script.launches else None


def _followed(source: Source, start: Scope, find: _Find) -> Script:
    """What a script does that starts in a scope, which stays as it is."""
    try:
        scope = start.copy()
    except TooMuchError:  # the tries before it took all
        raise too_much(Location(source=start.script)) from None
    scope.consulted, scope.assumed, scope.optional = [], [], []
    interpreter = Interpreter(scope, find)
    try:
        interpreter.follow(source)
    except RecursionError:
        raise InputError(
            _("the script is nested too deeply"), location=Location(source=scope.script)
        ) from None
    commands, assumed, not_read = interpreter.commands, scope.assumed, interpreter.not_read
    given_up, failed_at = tuple(interpreter.given_up), interpreter.failed_at
    interpreter.take_apart()
    programs, overridden = _told_apart(launches(commands))
    started, writers = without_writers(programs, overridden)
    return Script(
        launches=started,
        writers=writers,
        assumed=tuple(dict.fromkeys(assumed)),
        not_read=tuple(dict.fromkeys(not_read)),
        given_up=given_up,
        in_doubt=() if started else together(*map(_doubts, commands)),
        instead=()
        if started
        else started_instead(commands, programs, not_read, lambda name: find(name) is not None),
        failed_at=None if started else failed_at,
        lost=tuple(lost for command in commands for lost in _lost(command)),
        steps=scope.effort.steps,
        optional=tuple(dict.fromkeys(scope.optional))[:_MOST_OPTIONAL],
        nameless=tuple(dict.fromkeys(name for command in commands for name in _nameless(command))),
    )


def _told_apart(programs: Sequence[Launch]) -> tuple[tuple[Launch, ...], list[Launch]]:
    """The programs, and those among them that are launches, each with the others that are started before it.

    Launches get overrides. Where no program does, one that is given the name of a configuration is a launch.
    """
    is_launch = _gets_overrides if any(map(_gets_overrides, programs)) else _names_configuration
    told = [(program, is_launch(program)) for program in programs]
    earlier = tuple(
        replace(program, earlier=tuple(one for one, trains in told[:position] if not trains))
        if overridden
        else program
        for position, (program, overridden) in enumerate(told)
    )
    return earlier, list(filter(is_launch, earlier))


def _nameless(command: StartedProgram) -> Iterator[str]:
    """The variable that stands for a program with overrides and that nobody sets: ``$COMMAND a.b=1``."""
    first, *rest = command.words
    names = [unknown.name for unknown in first.text.unknowns]
    if (
        len(first.text.pieces) == 1
        and names
        and names[0]
        and any(is_override(str(word.text)) for word in rest)
    ):
        yield names[0]


def _asks_for_arguments(content: bytes) -> bool:
    return len(content) <= _LARGEST_TRIED and _ARGUMENT.search(content) is not None


def _without_open_arguments(launch: Launch, open_arguments: tuple[Text, ...]) -> Launch:
    """The launch without the open arguments that it passes on whole: ``"$@"`` may be empty."""
    return replace(
        launch, arguments=tuple(field for field in launch.arguments if field.text not in open_arguments)
    )


def is_override(word: str) -> bool:
    """Whether a word of a command has the form of an override: a dotted key and a value."""
    return _OVERRIDE.match(word) is not None


def _gets_overrides(launch: Launch) -> bool:
    return any(is_override(str(argument.text)) for argument in launch.arguments)


def _names_configuration(launch: Launch) -> bool:
    named = any(str(argument.text).partition("=")[0] in CONFIG_NAME for argument in launch.arguments)
    return named or (_names_yaml(launch) and _merges_files(launch))


def _names_yaml(launch: Launch) -> bool:
    return any(str(argument.text).endswith((".yaml", ".yml")) for argument in launch.arguments)


def _merges_files(launch: Launch) -> bool:
    """Whether the code of a program merges the files that it is given to a trainer's configuration."""
    from tuner.inputs.program.find import file_of_program, starting_folders  # few programs get a file
    from tuner.inputs.program.merged_files import merged_files

    starts = starting_folders(str(Path(launch.location.source).parent), launch.folders)
    file = file_of_program(launch.program, starts)
    arguments = [Argument(text=str(one.text), location=one.location) for one in launch.arguments]
    return file is not None and merged_files(file, arguments) is not None


def _doubts(command: StartedProgram) -> tuple[UndecidedPart, ...]:
    """What is not run that would tell which program a command with overrides starts."""
    starting = [word for word in command.words if not is_override(str(word.text))]
    if len(starting) == len(command.words):
        return ()
    return together(*(word.text.undecided_parts for word in starting), command.doubts)


def _lost(command: StartedProgram) -> list[LostOverride]:
    """The overrides of a command that is made of them; those without a dot, too, which it may assign."""
    first = str(command.words[0].text)
    if not is_override(first) or "=" not in first:
        return []
    place = command.words[0].location
    assigned = [
        LostOverride(text=f"{name}={value}", location=command.location, command=place)
        for name, value in command.assigned
        if _PLAIN_OVERRIDE.match(f"{name}=")
    ]
    words = [(str(word.text), word.location) for word in command.words]
    overrides = [
        LostOverride(text=text, location=location, command=place)
        for text, location in words
        if is_override(text) or _PLAIN_OVERRIDE.match(text)
    ]
    return [*assigned, *overrides]


def _named_file(script: Path, name: str) -> tuple[str, bytes] | None:
    """A file that a script names: from the folder of the script or one above it, never from elsewhere."""
    folder = script.parent.absolute()
    for start in (Path.cwd(), folder, *list(folder.parents)[:_FOLDERS_UP]):
        try:
            file = (start / name).resolve()
        except (OSError, ValueError, RuntimeError):  # no name of a file, or links in a circle
            continue
        top = list(folder.resolve().parents)[:_FOLDERS_UP]
        within = file.is_relative_to(folder.resolve()) or any(
            file.is_relative_to(above) for above in top if above != above.parent
        )
        if within and is_there(file, Path.is_file):
            shown = Path(name) if is_there(Path.cwd() / name, Path.is_file) else file
            return str(shown), read_bytes(file, most=MOST_BYTES)
    return None
