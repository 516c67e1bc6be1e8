"""A launch as what is given: its arguments, the configuration that it names, and what is open."""

import re
from collections.abc import Iterator, Sequence
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.errors import InputError, Location, cut
from tuner.files import is_there
from tuner.inputs.machine import HUAWEI, target_machine
from tuner.inputs.overrides import COMMAND_LINE, CONFIG_OPTIONS, Argument, on_command_line, option_value
from tuner.inputs.secrets import taken_override, taken_text, without_secrets
from tuner.inputs.user_input import MissingConfiguration, OpenArgument, Remark, UserInput, folder_of
from tuner.inputs.yaml_file import read_yaml
from tuner.language import _

if TYPE_CHECKING:
    from tuner.inputs.earlier_programs import EarlierProgram
    from tuner.inputs.script import Script
    from tuner.inputs.shell.launches import Launch
    from tuner.inputs.shell.values import Field


_FOLDERS_UP = 8  # above a script, in which a configuration that it names is looked for


_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*=")
_UNFILLED = re.compile(r"\+{0,2}([\w.@/-]+)=(\{[A-Za-z_]\w*\})")  # of a template: Hydra reads no such value
#: A path or a name that whoever starts the script has to fill in, which Hydra does not read either:
#: ``model.path=<your_model>``, ``default_local_dir=<root>/run``. Tokens of a model stand behind other keys.
_TO_FILL_IN = re.compile(
    r"\+{0,2}([\w.@/-]*(?:path|paths|file|files|dir|folder|name|model))=([^<>'\"\[{]*<\w[\w ./:-]*>[^<>'\"]*)"
)
_NAMED = 3  # commands that are not run, in one message
_FILE_BELOW = re.compile(r"/[\w./-]*\.\w+")  # a folder
_OF_A_SHELL = frozenset({"HOME", "PWD", "OLDPWD", "USER", "LOGNAME", "TMPDIR", "HOSTNAME"})  # always set
_UNKNOWN = "unknown"  # stands in a text for a part of it that nobody knows
_OF_A_NUMBER = re.compile(r"[\d._eE+-]*")
_UNFILLED_PART = re.compile(r"(?<!\$)\{([A-Za-z_]\w*)\}")  # of a name or a path in a template


def with_config(given: UserInput, folder: Path) -> UserInput:
    """The input laid on the user's own file that ``--config-name`` names, where it can be found."""
    name = option_value(given.arguments, "config_name")
    if name is not None and "$" in name.text:
        from tuner.inputs.unset_config import with_own_config  # few names are left open

        given = with_own_config(given, name)
        name = option_value(given.arguments, "config_name")
    path = option_value(given.arguments, "config_path") or option_value(given.arguments, "config_dir")
    if name is None or path is None or _is_beside_program(given):
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


def _is_beside_program(given: UserInput) -> bool:
    """Whether the file lies where the program's own code has Hydra look, which its trainer reads then."""
    from tuner.inputs.program.named_config import named_config

    named = named_config(given.program, given.arguments, folder=given.folder, folders=given.folders)
    return named is not None and named.file is not None


def with_missing_config(given: UserInput, missing: MissingConfiguration) -> UserInput:
    """The input with a configuration among what is open: the launch names it, and no file has it."""
    text = _("{name}, which was not found here; the trainer's own configuration is taken")
    if not missing.name:
        text = _("not known: {reason}; the trainer's own configuration is taken")
    elif missing.reason:
        text = _("{name}, which cannot be composed; the trainer's own configuration is taken")
    option = option_value(given.arguments, "config_name")
    place = missing.location if option is None else option.location
    if place.source == COMMAND_LINE:
        place = Location(source=given.source)
    opened = OpenArgument(
        key="--config-name",
        text=text.format(name=missing.name, reason=missing.reason),
        name="",
        location=place,
    )
    return replace(given, unsettled=(opened, *given.unsettled), missing=missing)


def pasted(words: Sequence[str]) -> UserInput:
    """A command as it stands in a shell or a document, or overrides alone."""
    from tuner.inputs.shell.carriers import handed_line, is_shell, shell_position
    from tuner.inputs.shell.launches import launches
    from tuner.inputs.shell.passed_variables import environment_of
    from tuner.inputs.shell.scope import Scope
    from tuner.inputs.shell.started_program import StartedProgram
    from tuner.inputs.shell.values import Field, text

    typed = on_command_line(words)
    fields = tuple(Field(text=text(word.text), location=word.location) for word in typed)
    handed = shell_position(fields) is not None or handed_line(fields) is not None
    if handed or (is_shell(fields[0]) and len(fields) > 1):
        import shlex

        from tuner.inputs.script import read_script

        file = Path(COMMAND_LINE)
        return launched(file, read_script(file, shlex.join(words).encode(), ()), (), None)
    command = StartedProgram(
        words=fields,
        environment=(),
        location=typed[0].location,
        certain=True,
        variables=environment_of(Scope(script=""), (), fields, typed[0].location),
    )
    started = launches([command])
    if started:
        arguments = [
            Argument(text=taken_override(str(word.text)), location=word.location)
            for word in started[0].arguments
        ]
    else:
        arguments = _overrides_alone(typed)
        if not any("=" in word.text for word in arguments):
            raise InputError(
                _("{word!r} is neither a file nor a command that starts a trainer").format(word=words[0]),
                hint=_("give a YAML file, a launch script, overrides, or the command as it is typed"),
            )
    given = UserInput(
        source="command line",
        arguments=tuple(arguments),
        program=started[0].program if started else "",
        processes=started[0].processes if started else None,
        remarks=tuple(map(_as_variable, typed[: -len(arguments)])) if not started else (),
        folder=str(Path.cwd()),
        environment=command.variables,
    )
    return with_config(given, Path.cwd())


def _overrides_alone(words: Sequence[Argument]) -> list[Argument]:
    """Words of which none is a program, without the variables in front, as a shell has them there.

    A trainer's own keys are lower case, with a dot or without one; variables that libraries read are not.
    """
    return list(dropwhile(lambda word: _VARIABLE.match(word.text), words))


def _as_variable(word: Argument) -> Remark:
    name = word.text.partition("=")[0]
    return Remark(
        text=_("{name} is taken for a variable, being in capitals and in front").format(name=name),
        location=word.location,
    )


def launched(file: Path, script: "Script", words: Sequence[str], number: int | None) -> UserInput:
    """One launch of a script."""
    from tuner.inputs.alternative_launches import alternative_launches
    from tuner.inputs.model_writers import writers_of_config
    from tuner.inputs.not_followed import not_followed
    from tuner.inputs.settings_file import settings_file

    if len(script.launches) > 1:
        from tuner.inputs.shell.allocated_nodes import once_for_all_nodes  # of scripts with several

        script = replace(script, launches=once_for_all_nodes(script.launches))
    launch = _chosen(file, script, number)
    place = next(position for position, one in enumerate(script.launches, 1) if one is launch)
    arguments: list[Argument] = []
    unsettled: list[OpenArgument] = []
    open_arguments: list[tuple[str, Field]] = []
    before = ""
    for field in launch.arguments:
        open_value = None if before in CONFIG_OPTIONS else _unsettled(field)
        before = str(field.text)
        if open_value is not None:
            unsettled.append(open_value)
            open_arguments.append((open_value.key, field))
        else:
            arguments.append(Argument(text=_argument_text(field), location=field.location))
    passed = {argument.text for argument in arguments}
    further = [word for word in on_command_line(words) if _is_override(word.text) and word.text not in passed]
    alternatives = tuple(alternative_launches(script, launch))
    given = UserInput(
        source=str(file),
        arguments=(*arguments, *further),
        unsettled=tuple(unsettled),
        open_paths=tuple(_open_paths(launch)),
        remarks=_remarks(script),
        launch=place,
        not_followed=(
            *_not_run(file, script, launch),
            *_launches_beside(script, place, number),
            *not_followed(script, launch, open_arguments, alternatives),
        ),
        alternatives=alternatives,
        machine=target_machine(),
        lost=tuple(replace(lost, text=_repeated(lost.text)) for lost in script.lost),
        program=launch.program,
        processes=launch.processes,
        folder=folder_of(str(file)),
        folders=launch.folders,
        placed=launch.placed,
        asked_for=script.arguments,
        settings_file=settings_file(script, open_arguments),
        servers=launch.servers,
        environment=launch.variables,
        earlier=tuple(writers_of_config(launch.earlier, file.parent)),
        fine_tuned=tuple(_fine_tuned(script, place)),
    )
    return with_config(given, file.parent)


def _chosen(file: Path, script: "Script", number: int | None) -> "Launch":
    place = Location(source=str(file))
    launches = script.launches
    if not launches:
        raise _without_launch(script, place)
    typed = [launch for launch in launches if launch.on_default_path]
    if number is None and len(typed) == 1:
        return typed[0]
    if number is None and len(launches) > 1:
        from tuner.inputs.launch_choice import main_launch, several_launches  # of scripts with several

        main = main_launch(typed or launches)
        if main is None:
            raise several_launches(launches, place)
        return main
    if number is not None and not 1 <= number <= len(launches):
        raise InputError(
            _("there is no launch {number}: the script has {count}").format(
                number=number, count=len(launches)
            ),
            location=place,
        )
    return launches[(number or 1) - 1]


def _launches_beside(script: "Script", chosen: int, number: int | None) -> Iterator[Remark]:
    """What a script launches besides, where nobody says which launch is meant."""
    if number is None and sum(launch.on_default_path for launch in script.launches) > 1:
        from tuner.inputs.launch_choice import other_launches

        yield other_launches(script.launches, chosen)


def _fine_tuned(script: "Script", chosen: int) -> "Iterator[EarlierProgram]":
    """The launches of a script that fine-tune a model before one of them, the last one first."""
    for launch in reversed(script.launches[: chosen - 1]):
        from tuner.inputs.earlier_programs import EarlierProgram
        from tuner.inputs.launch_choice import fine_tunes

        if launch.on_default_path and fine_tunes(launch):
            words = tuple(taken_override(str(field.text)) for field in launch.arguments)
            yield EarlierProgram(name=launch.program, words=words, location=launch.location)


def _without_launch(script: "Script", place: Location) -> InputError:
    """The error of a script that starts no trainer, which names what is not run that would tell of one."""
    from tuner.inputs.not_followed import named

    hint = _("give the arguments and variables that it needs: run.sh ARGUMENT... NAME=value...")
    if script.failed_at is not None and not (script.optional or script.nameless or script.in_doubt):
        return _ended_by_itself(script.failed_at)
    if script.optional:
        hint = _("nobody sets {names}, which it takes for empty: give {name}=VALUE behind the script").format(
            names=_(", ").join(f"${name}" for name in script.optional), name=script.optional[0]
        )
    if script.nameless:
        hint = _(
            "nobody sets {names}, which stands for the program: give {name}=VALUE behind the script"
        ).format(names=_(", ").join(f"${name}" for name in script.nameless), name=script.nameless[0])
    if script.in_doubt:
        hint = _("not run, and it decides: {commands}; {hint}").format(
            commands=named(script.in_doubt[:_NAMED]), hint=hint
        )
    message = _("the script starts no program with overrides, as far as it can be followed")
    if script.instead:
        message = _("{message}: {started}").format(
            message=message, started=_(", ").join(map(str, script.instead))
        )
    other = _("or give a file with all settings, the log of a run, or the overrides themselves")
    return InputError(message, location=place, hint=_("{hint}; {other}").format(hint=hint, other=other))


def _ended_by_itself(place: Location) -> InputError:
    """The error of a script that ends as failed whatever arguments and variables it is given."""
    return InputError(
        _("the script ends here by its own exit, before it starts any program with overrides"),
        location=place,
        hint=_(
            "change what it tests before this line, or give a file with all settings, the log of a run, or "
            "the overrides themselves"
        ),
    )


def _is_override(word: str) -> bool:
    from tuner.inputs.script import is_override

    return is_override(word)


def _unsettled(field: "Field") -> OpenArgument | None:
    """The argument, where nothing of its value is known."""
    from tuner.inputs.shell.values import Unknown

    unknowns = field.text.unknowns
    if not unknowns:
        text = str(field.text)
        unfilled = _UNFILLED.fullmatch(text) or _TO_FILL_IN.fullmatch(text)
        if unfilled is None:
            return None
        return OpenArgument(key=taken_text(unfilled[1]), text=unfilled[2], name="", location=field.location)
    first = field.text.pieces[0]
    key, equals, value = first.partition("=") if isinstance(first, str) else ("", "", "")
    rest = [piece for piece in field.text.pieces[1:] if not isinstance(piece, Unknown)]
    if equals and not all(_OF_A_NUMBER.fullmatch(piece.strip("'\"")) for piece in (value, *rest)):
        return None  # a path or a name with a part that is not known: the rest says enough
    return OpenArgument(
        key=taken_text(key.lstrip("+")),
        text=_repeated(unknowns[0].text),
        name=cut(unknowns[0].name),
        location=field.location,
    )


def _open_paths(launch: "Launch") -> Iterator[OpenArgument]:
    """The files whose paths begin with a variable that nobody sets, one of each: ``$DATA/train.parquet``."""
    names: set[str] = set()
    for field in launch.arguments:
        first, *rest = field.text.pieces
        if not (isinstance(first, str) and first.endswith("=") and len(rest) == 2):
            continue
        unknown, path = rest
        if isinstance(unknown, str) or not isinstance(path, str) or not _FILE_BELOW.fullmatch(path):
            continue
        plain = unknown.text.strip('"') in (f"${unknown.name}", f"${{{unknown.name}}}")
        if unknown.name and plain and not unknown.because and unknown.name not in {*_OF_A_SHELL, *names}:
            names.add(unknown.name)
            yield OpenArgument(
                key=taken_text(first[:-1].lstrip("+")),
                text=_repeated(f"{unknown.text}{path}"),
                name=cut(unknown.name),
                location=field.location,
            )


def _repeated(text: str) -> str:
    """A piece of the script for a reader, who need not see all of a long one."""
    return cut(without_secrets(text))


def _argument_text(field: "Field") -> str:
    """An argument with a word in place of what is not known in it, such as what a template is filled with."""
    text = "".join(
        piece if isinstance(piece, str) else f"${piece.name or _UNKNOWN}" for piece in field.text.pieces
    )
    key, equals, value = text.partition("=")
    if "{" in value and not any(quote in value for quote in "'\""):
        value = _UNFILLED_PART.sub(r"$\1", value)
    return taken_override(f"{key}{equals}{value}")


def _not_run(file: Path, script: "Script", launch: "Launch") -> Iterator[Remark]:
    """A remark on a launch that bash does not come to run: it stands in a command without an end."""
    unclosed, place = script.unclosed, launch.location
    if unclosed is None or place.source != str(file) or (place.line or 0) < unclosed.line:
        return
    text = _(
        "bash does not run the launch: what begins here has no {end}, and it stops at the end of the file"
    )
    location = Location(source=str(file), line=unclosed.line)
    yield Remark(text=text.format(end=unclosed.end), location=location)


def _remarks(script: "Script") -> tuple[Remark, ...]:
    form = _("taken as on a machine with GPUs: {test}")
    if target_machine().vendor == HUAWEI:
        form = _("taken as on a machine with Ascend NPUs: {test}")
    return (
        *(
            Remark(text=form.format(test=_repeated(assumed.text)), location=assumed.location)
            for assumed in script.assumed
        ),
        *(
            Remark(
                text=_("not there to be read: {file}").format(file=_repeated(missing.text)),
                location=missing.location,
            )
            for missing in script.not_read
        ),
        *(
            Remark(
                text=_("{assignment} is a placeholder, at which bash stops: put a value in its place").format(
                    assignment=_repeated(placeholder.text)
                ),
                location=placeholder.location,
            )
            for placeholder in script.placeholders
        ),
        *(
            Remark(
                text=_("taken as written into the configuration: the values that {program} gets").format(
                    program=_repeated(writer.program)
                ),
                location=writer.location,
            )
            for writer in script.writers
        ),
    )
