"""What a person gives as the configuration: YAML, a launch script, a pasted command, the log of a run.

The form is told by the content, so that standard input serves for all of them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location, cut
from tuner.files import STANDARD_INPUT, is_there, opened
from tuner.inputs.overrides import COMMAND_LINE, CONFIG_OPTIONS, Argument, on_command_line, option_value
from tuner.inputs.secrets import hidden_override, without_secrets
from tuner.inputs.yaml_file import (
    MAX_BYTES,
    Document,
    expect_tabs_as_hydra,
    of_folder,
    parse_yaml,
    read_yaml,
    text_of,
)
from tuner.language import _

if TYPE_CHECKING:
    from tuner.inputs.log.run_log import RunLog
    from tuner.inputs.processes import Processes
    from tuner.inputs.record.read import RunRecord
    from tuner.inputs.script import Script
    from tuner.inputs.shell.launches import Launch
    from tuner.inputs.shell.values import Field

YAML_NAMES = (".yaml", ".yml", ".json")
SHELL_NAMES = (".sh", ".bash", ".slurm", ".sbatch", ".pbs")
_MAPPING = re.compile(r"(?:---|\{|-\s|[\w./@'\"+-]+\s*:(?:\s|$))")
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_FOLDERS_UP = 8  # above a script, in which a configuration that it names is looked for
_LISTED = 10  # launches in one message
_PROGRAM = re.compile(r"\b(?:python[\d.]*|torchrun|debugpy)\b")
_ASSIGNED = re.compile(r"[A-Za-z_]\.\w+=")
_PATH_OPTIONS = ("--config-path", "-cp", "--config-dir", "-cd", "--config-name", "-cn")
_UNKNOWN = "unknown"  # stands in a text for a part of it that nobody knows
_OF_A_NUMBER = re.compile(r"[\d._eE+-]*")


class Unsettled(Struct, frozen=True, kw_only=True):
    """An argument of a launch whose value only a run of the script would tell; it is left out."""

    key: str  # empty where not even the key is known
    text: str  # as the script has it
    name: str  # the variable that settles it; empty where none does
    location: Location


class Remark(Struct, frozen=True, kw_only=True):
    """Something that was taken to be so when a script was read."""

    text: str
    location: Location


class LostOverride(Struct, frozen=True, kw_only=True):
    """An override that a script has and that never reaches the trainer."""

    text: str
    location: Location
    command: Location  # the line that the shell takes for a command of its own; one may begin several


class Given(Struct, frozen=True, kw_only=True):
    """A configuration as it was given, ready for a trainer to read."""

    source: str  # names it in the answer
    document: Document | None = None
    arguments: tuple[Argument, ...] = ()
    unsettled: tuple[Unsettled, ...] = ()
    remarks: tuple[Remark, ...] = ()
    lost: tuple[LostOverride, ...] = ()
    log: "RunLog | None" = None  # what else the log says that the configuration was read from
    record: "RunRecord | None" = None  # of the run whose configuration it is, where its workers left one
    program: str = ""  # the module or file that a command or script starts; empty where none is seen
    processes: "Processes | None" = None  # that a command or script starts, where it says how many
    folder: str = ""  # where it lies or is typed: what it names is looked for there; empty for standard input
    text: str = ""  # what was read; empty of a command as it is typed and of a log
    within: bool = False  # the launch stands inside of a file for another program


def read_given(
    config: str, words: Sequence[str], *, launch: int | None = None, content: bytes | None = None
) -> Given:
    """Read what the command line names.

    Args:
        config: a file, ``-`` for standard input, or the first word of a pasted command.
        words: what follows it: overrides, or the arguments and variables of a script.
        launch: which of several launches of a script is meant, from 1.
        content: in place of what the file has; of YAML and scripts.

    Raises:
        InputError: it cannot be read, or is none of these forms.
    """
    file = Path(config)
    if config != STANDARD_INPUT and not is_there(file) and is_command(config):
        return _pasted([config, *words])
    remarks: tuple[Remark, ...] = ()
    record = None
    if config != STANDARD_INPUT and is_there(file, Path.is_dir):
        record = _record_in(file)
        file, remarks = _in_folder(file)
        config = str(file)
    log = None
    with opened(file, most=MAX_BYTES + 1, of_folder=of_folder()) as (start, stream):
        if not config.endswith(YAML_NAMES + SHELL_NAMES):
            from tuner.inputs.log.ends import read_ends
            from tuner.inputs.log.run_log import is_log, read_log

            log = read_ends(start, stream) if is_log(start) else None
    if log is not None:
        return _logged(read_log(config, log), file, words)
    text = text_of(start if content is None else content, file)
    if not is_shell(config, text):
        given = replace(_of_yaml(config, text, words, remarks, launch), text=text)
        return given if record is None else _recorded(given, record)
    from tuner.inputs.script import read_script

    inner = None
    if config.endswith(".py"):
        from tuner.inputs.python_file import script_in_python

        inner = script_in_python(text)
    script = read_script(file, (inner or text).encode(), words)
    return replace(_launched(file, script, words, launch), text=text, within=inner is not None)


def _in_folder(folder: Path) -> tuple[Path, tuple[Remark, ...]]:
    """The configuration of the run that a folder holds."""
    from tuner.inputs.run_folder import configuration_in

    file = configuration_in(folder)
    return file, (_taken(file, folder),)


def _record_in(folder: Path) -> "RunRecord | None":
    """The record of a run that a folder holds; None where it holds none."""
    from tuner.inputs.record.read import is_record, read_record

    return read_record(folder) if is_record(folder) else None


def _recorded(given: Given, record: "RunRecord") -> Given:
    """A configuration with the record that lies beside it, and the steps in it as a log would tell them."""
    from tuner.inputs.log.run_log import RunLog
    from tuner.inputs.record.form import WORKER_CONFIG

    remarks = given.remarks
    if Path(given.source).name == WORKER_CONFIG:
        text = _(
            "the trainer's process recorded nothing: a worker wrote these settings, and assumed the rest"
        )
        remarks = (*remarks, Remark(text=text, location=Location(source=given.source)))
    log = RunLog(configuration=None, steps=record.steps)
    return replace(given, record=record, log=log, remarks=remarks)


def _taken(file: Path, given: Path) -> Remark:
    return Remark(
        text=_("the run's settings are those of {file}").format(file=file),
        location=Location(source=str(given)),
    )


def _of_yaml(
    config: str, text: str, words: Sequence[str], remarks: tuple[Remark, ...], launch: int | None
) -> Given:
    """YAML: a trainer's configuration, what a run has left of it, or a file that has a trainer started."""
    from tuner.inputs.run_folder import beside, is_wandb, typed_overrides, unwrapped

    typed = tuple(on_command_line(words))
    listed = typed_overrides(text, source=config)
    if listed is not None:
        return Given(source=config, arguments=(*listed, *typed), remarks=remarks, folder=_folder(config))
    if _PROGRAM.search(text) and _ASSIGNED.search(text):  # which no configuration of a trainer has
        started = _started_by(config, text, words, launch)
        if started is not None:
            return started
    document = parse_yaml(text, source=config)
    expect_tabs_as_hydra(text, source=config)
    file = beside(document)
    if file is not None:
        remarks, document = (*remarks, _taken(file, Path(config))), read_yaml(file)
    log = None
    if is_wandb(document.tree) and document.source != STANDARD_INPUT:
        from tuner.inputs.log.summary import summary_beside

        log = summary_beside(Path(document.source))
    return Given(
        source=config,
        document=unwrapped(document),
        arguments=typed,
        remarks=remarks,
        log=log,
        folder=_folder(document.source),
    )


def _started_by(config: str, text: str, words: Sequence[str], launch: int | None) -> Given | None:
    """What a file for another program has started; None where it starts no program with overrides."""
    from tuner.inputs.manifest import launching_document, script_in
    from tuner.inputs.script import read_script

    script = script_in(parse_yaml(launching_document(text), source=config), text)
    if script is None:
        return None
    followed = read_script(Path(config), script.encode(), words)
    if not followed.launches:
        return None
    return replace(_launched(Path(config), followed, words, launch), within=True)


def _folder(source: str) -> str:
    return "" if source == STANDARD_INPUT else str(Path(source).absolute().parent)


def is_command(word: str) -> bool:
    """Whether a first word begins a pasted command and names no file."""
    return "=" in word or word.startswith(("+", "~")) or ("/" not in word and "." not in word)


def is_shell(name: str, text: str) -> bool:
    """Whether a text is a script and no YAML, by its name where that tells, else by its first line."""
    if name.endswith(YAML_NAMES):
        return False
    if name.endswith(SHELL_NAMES) or text.startswith("#!"):
        return True
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", "%"))), "")
    return bool(first) and _MAPPING.match(first) is None


def _pasted(words: Sequence[str]) -> Given:
    """A command as it stands in a shell or a document, or overrides alone."""
    from tuner.inputs.shell.carriers import handed_line, is_shell, shell_position
    from tuner.inputs.shell.interpreter import Command
    from tuner.inputs.shell.launches import launches
    from tuner.inputs.shell.values import Field, text

    typed = on_command_line(words)
    fields = tuple(Field(text=text(word.text), location=word.location) for word in typed)
    handed = shell_position(fields) is not None or handed_line(fields) is not None
    if handed or (is_shell(fields[0]) and len(fields) > 1):
        import shlex

        from tuner.inputs.script import read_script

        file = Path(COMMAND_LINE)
        return _launched(file, read_script(file, shlex.join(words).encode(), ()), (), None)
    command = Command(
        words=fields,
        environment=(),
        location=typed[0].location,
        certain=True,
    )
    started = launches([command])
    if started:
        arguments = [
            Argument(text=hidden_override(str(word.text)), location=word.location)
            for word in started[0].arguments
        ]
    else:
        arguments = [word for word in typed if not _VARIABLE.match(word.text) or word.text.isidentifier()]
        if not any("=" in word.text for word in arguments):
            raise InputError(
                _("{word!r} is neither a file nor a command that starts a trainer").format(word=words[0]),
                hint=_("give a YAML file, a launch script, overrides, or the command as it is typed"),
            )
    given = Given(
        source="command line",
        arguments=tuple(arguments),
        program=started[0].program if started else "",
        processes=started[0].processes if started else None,
        folder=str(Path.cwd()),
    )
    return _with_config(given, Path.cwd())


def _logged(log: "RunLog", file: Path, words: Sequence[str]) -> Given:
    """The configuration that a log tells: as it was printed, else as the job was started."""
    typed = on_command_line(words)
    printed = log.configuration
    if printed is not None:
        document = Document(source=str(file), tree=printed.tree, locations=printed.locations, printed=True)
        return Given(source=str(file), document=document, arguments=tuple(typed), log=log)
    if log.overrides:
        place = Location(source=str(file), line=log.overrides_line)
        arguments = [Argument(text=hidden_override(text), location=place) for text in log.overrides]
        given = Given(source=str(file), arguments=(*arguments, *typed), log=log, folder=_folder(str(file)))
        return _with_config(given, file.parent)
    if log.command:
        from tuner.inputs.script import read_script

        script = read_script(file, log.command.encode(), ())
        if script.launches:
            given = _launched(file, script, (), None)
            arguments = [
                replace(argument, location=_in_log(argument.location, log)) for argument in given.arguments
            ]
            return replace(given, arguments=(*arguments, *typed), log=log)
    raise InputError(
        _("the log holds no configuration"),
        location=Location(source=str(file)),
        hint=_(
            "give a log from the start of the job, where the trainer prints its settings; an error alone "
            "is explained by: tuner explain-oom --message FILE"
        ),
    )


def _in_log(place: Location, log: "RunLog") -> Location:
    """A place in the command that a log holds, as one in the log."""
    if place.line is None or log.command_line is None:
        return Location(source=place.source)
    return Location(source=place.source, line=log.command_line + place.line - 1)


def _launched(file: Path, script: "Script", words: Sequence[str], number: int | None) -> Given:
    """One launch of a script."""
    launch = _chosen(file, script, number)
    arguments: list[Argument] = []
    unsettled: list[Unsettled] = []
    before = ""
    for field in launch.arguments:
        open_value = None if before in CONFIG_OPTIONS else _unsettled(field)
        before = str(field.text)
        if open_value is not None:
            unsettled.append(open_value)
        else:
            arguments.append(Argument(text=_spelled(field), location=field.location))
    passed = {argument.text for argument in arguments}
    further = [word for word in on_command_line(words) if _is_override(word.text) and word.text not in passed]
    given = Given(
        source=str(file),
        arguments=(*arguments, *further),
        unsettled=tuple(unsettled),
        remarks=_remarks(script),
        lost=tuple(
            LostOverride(text=_repeated(lost.text), location=lost.location, command=lost.command)
            for lost in script.lost
        ),
        program=launch.program,
        processes=launch.processes,
        folder=_folder(str(file)),
    )
    return _with_config(given, file.parent)


def _chosen(file: Path, script: "Script", number: int | None) -> "Launch":
    place = Location(source=str(file))
    launches = script.launches
    if not launches:
        raise InputError(
            _("the script starts no program with overrides, as far as it can be followed"),
            location=place,
            hint=_("give the arguments and variables that it needs: run.sh ARGUMENT... NAME=value..."),
        )
    if number is None and len(launches) > 1:
        listed = _("; ").join(
            _("--launch {number}: {program}, line {line}").format(
                number=position, program=launch.program, line=launch.location.line
            )
            for position, launch in enumerate(launches[:_LISTED], start=1)
        )
        raise InputError(
            _("the script has {count} launches").format(count=len(launches)), location=place, hint=listed
        )
    if number is not None and not 1 <= number <= len(launches):
        raise InputError(
            _("there is no launch {number}: the script has {count}").format(
                number=number, count=len(launches)
            ),
            location=place,
        )
    return launches[(number or 1) - 1]


def _is_override(word: str) -> bool:
    from tuner.inputs.script import is_override

    return is_override(word)


def with_missing_config(given: Given, name: str) -> Given:
    """The same with a configuration among what is open: the launch names it, and no file has it."""
    option = option_value(given.arguments, "config_name")
    missing = Unsettled(
        key="--config-name",
        text=_("{name}, which was not found here; the trainer's own configuration is taken").format(
            name=name
        ),
        name="",
        location=Location(source=given.source) if option is None else option.location,
    )
    return replace(given, unsettled=(missing, *given.unsettled))


def _unsettled(field: "Field") -> Unsettled | None:
    """The argument, where nothing of its value is known."""
    from tuner.inputs.shell.values import Unknown

    unknowns = field.text.unknowns
    if not unknowns:
        return None
    first = field.text.pieces[0]
    key, equals, value = first.partition("=") if isinstance(first, str) else ("", "", "")
    rest = [piece for piece in field.text.pieces[1:] if not isinstance(piece, Unknown)]
    if equals and not all(_OF_A_NUMBER.fullmatch(piece.strip("'\"")) for piece in (value, *rest)):
        return None  # a path or a name with a part that is not known: the rest says enough
    return Unsettled(
        key=without_secrets(key.lstrip("+")),
        text=_repeated(unknowns[0].text),
        name=cut(unknowns[0].name),
        location=field.location,
    )


def _repeated(text: str) -> str:
    """A piece of the script for a reader, who need not see all of a long one."""
    return cut(without_secrets(text))


def _spelled(field: "Field") -> str:
    """An argument with a word in place of what is not known in it."""
    return hidden_override(
        "".join(
            piece if isinstance(piece, str) else f"${piece.name or _UNKNOWN}" for piece in field.text.pieces
        )
    )


def _remarks(script: "Script") -> tuple[Remark, ...]:
    return (
        *(
            Remark(
                text=_("taken as on a machine with GPUs: {test}").format(test=_repeated(assumed.text)),
                location=assumed.location,
            )
            for assumed in script.assumed
        ),
        *(
            Remark(
                text=_("not there to be read: {file}").format(file=_repeated(missing.text)),
                location=missing.location,
            )
            for missing in script.not_read
        ),
    )


def _with_config(given: Given, folder: Path) -> Given:
    """The same on the user's own file that ``--config-name`` names, where it can be found."""
    name = option_value(given.arguments, "config_name")
    path = option_value(given.arguments, "config_path")
    if name is None or path is None:
        return given
    relative = Path(path.text.rpartition("$")[2].partition("/")[2] if "$" in path.text else path.text)
    file_name = name.text if name.text.endswith(".yaml") else f"{name.text}.yaml"
    for start in (Path.cwd(), folder, *list(folder.absolute().parents)[:_FOLDERS_UP]):
        file = start / relative / file_name
        if is_there(file, Path.is_file):
            document = read_yaml(file)
            remark = Remark(text=_("laid on {file}").format(file=file), location=name.location)
            return replace(given, document=document, remarks=(*given.remarks, remark))
    return given
