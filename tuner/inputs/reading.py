"""Reads what a person gives as the configuration: YAML, a launch script, a pasted command, the log of a run.

The form is told by the content, so that standard input serves for all of them.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import STANDARD_INPUT, is_there, opened
from tuner.inputs.named_inputs import SHELL_NAMES, YAML_NAMES, is_command, is_shell
from tuner.inputs.overrides import Argument, on_command_line
from tuner.inputs.secrets import taken_override
from tuner.inputs.user_input import Remark, UserInput, folder_of
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
    from tuner.inputs.record.read import RunRecord

_PROGRAM = re.compile(r"\b(?:python[\d.]*|torchrun|debugpy)\b")
_ASSIGNED = re.compile(r"[A-Za-z_]\.\w+=")
_OTHER_KEYS = frozenset({"run", "apiVersion"})  # of files that another program reads
_RECORD = ".jsonl"  # of a record in one file; few inputs end so, and the others need not load its reader
_BUNDLE = ".json"  # of a bundle


def read_given(
    config: str, words: Sequence[str], *, launch: int | None = None, content: bytes | None = None
) -> UserInput:
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
        from tuner.inputs.launch_input import pasted  # a file is none

        return pasted([config, *words])
    remarks: tuple[Remark, ...] = ()
    record = None
    if config.endswith(_RECORD):
        in_one_file = _in_record_file(file, words)
        if in_one_file is not None:
            return in_one_file
    if config.endswith(_BUNDLE):
        from tuner.inputs.bundled_input import bundled_input
        from tuner.inputs.record.bundle import is_bundle

        if is_bundle(file):
            return bundled_input(file, tuple(words))
    if config != STANDARD_INPUT and is_there(file, Path.is_dir):
        record = _record_in(file)
        file, remarks = _in_folder(file)
        config = str(file)
    log = None
    with opened(file, most=MAX_BYTES + 1, of_folder=of_folder()) as (start, stream):
        if not config.endswith(YAML_NAMES + SHELL_NAMES):
            from tuner.inputs.log.lines import read_ends
            from tuner.inputs.log.run_log import is_log, read_log

            log = read_ends(start, stream) if is_log(start) else None
    if log is not None:
        return _logged(read_log(config, log), file, words)
    text = text_of(start if content is None else content, file)
    if not is_shell(config, text):
        given = replace(_of_yaml(config, text, words, remarks, launch), text=text)
        return given if record is None else _with_record(given, record)
    from tuner.inputs.launch_input import launched
    from tuner.inputs.script import read_script

    inner = None
    if config.endswith(".py"):
        from tuner.inputs.python_file import script_in_python

        inner = script_in_python(text)
    script = read_script(file, (inner or text).encode(), words)
    return replace(launched(file, script, words, launch), text=text, within=inner is not None)


def _in_folder(folder: Path) -> tuple[Path, tuple[Remark, ...]]:
    """The configuration of the run that a folder holds."""
    from tuner.inputs.run_folder import configuration_in

    file = configuration_in(folder)
    return file, (_source_remark(file, folder),)


def _record_in(folder: Path) -> "RunRecord | None":
    """The record of a run that a folder holds; None where it holds none."""
    from tuner.inputs.record.read import is_record, read_record

    return read_record(folder) if is_record(folder) else None


def _in_record_file(file: Path, words: Sequence[str]) -> UserInput | None:
    """The configuration and the record of a run whose record is one file; None where it is another file."""
    from tuner.inputs.record.read import is_record_file, read_record

    if not is_record_file(file):
        return None
    record = read_record(file)
    if record.configuration is None:
        raise InputError(_("the record has no configuration"), location=Location(source=str(file)))
    given = _of_yaml(str(file), record.configuration, words, (), None)
    if given.document is not None:  # its lines are those of a text within one line of the file
        given = replace(given, document=replace(given.document, locations={}))
    if record.run is not None:
        given = replace(given, models=tuple(record.run.models.items()))
    return _with_record(given, record)


def _with_record(given: UserInput, record: "RunRecord") -> UserInput:
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


def _source_remark(file: Path, given: Path) -> Remark:
    return Remark(
        text=_("the run's settings are those of {file}").format(file=file),
        location=Location(source=str(given)),
    )


def _of_yaml(
    config: str, text: str, words: Sequence[str], remarks: tuple[Remark, ...], launch: int | None
) -> UserInput:
    """YAML: a trainer's configuration, what a run has left of it, or a file that has a trainer started."""
    from tuner.inputs.run_folder import is_wandb, run_configuration, typed_overrides, unwrapped

    typed = tuple(on_command_line(words))
    listed = typed_overrides(text, source=config)
    if listed is not None:
        return UserInput(
            source=config, arguments=(*listed, *typed), remarks=remarks, folder=folder_of(config)
        )
    if _PROGRAM.search(text) and _ASSIGNED.search(text):  # which no configuration of a trainer has
        started = _started_by(config, text, words, launch)
        if started is not None:
            return started
    document = parse_yaml(text, source=config)
    expect_tabs_as_hydra(text, source=config)
    _refuse_other_job(document, config)
    file = run_configuration(document)
    if file is not None:
        remarks, document = (*remarks, _source_remark(file, Path(config))), read_yaml(file)
    log = None
    if is_wandb(document.tree) and document.source != STANDARD_INPUT:
        from tuner.inputs.log.run_log import summary_beside

        log = summary_beside(Path(document.source))
    return UserInput(
        source=config,
        document=unwrapped(document),
        arguments=typed,
        remarks=remarks,
        log=log,
        folder=folder_of(document.source),
    )


def _refuse_other_job(document: Document, config: str) -> None:
    """Refuse a file that has another program start something that is no trainer with overrides.

    Raises:
        InputError: it is one.
    """
    if not _OTHER_KEYS.isdisjoint(map(str, document.tree)):
        from tuner.inputs.manifest import names_other_job  # of few files

        name = names_other_job(document.tree)
        if name:
            raise InputError(
                _(
                    "a job of {name} that starts no program with overrides, as far as it can be followed"
                ).format(name=name),
                location=Location(source=config),
                hint=_("give a file with all settings, the log of a run, or the overrides themselves"),
            )


def _started_by(config: str, text: str, words: Sequence[str], launch: int | None) -> UserInput | None:
    """What a file for another program has started; None where it starts no program with overrides."""
    from tuner.inputs.launch_input import launched
    from tuner.inputs.manifest import launching_document, script_in
    from tuner.inputs.script import read_script

    script = script_in(parse_yaml(launching_document(text), source=config), text)
    if script is None:
        return None
    followed = read_script(Path(config), script.encode(), words)
    if not followed.launches:
        return None
    return replace(launched(Path(config), followed, words, launch), within=True)


def _logged(log: "RunLog", file: Path, words: Sequence[str]) -> UserInput:
    """The configuration that a log tells: as it was printed, else as the job was started."""
    typed = on_command_line(words)
    printed = log.configuration
    if printed is not None:
        document = Document(source=str(file), tree=printed.tree, locations=printed.locations, printed=True)
        return UserInput(source=str(file), document=document, arguments=tuple(typed), log=log)
    if log.overrides:
        place = Location(source=str(file), line=log.overrides_line)
        arguments = [Argument(text=taken_override(text), location=place) for text in log.overrides]
        given = UserInput(
            source=str(file), arguments=(*arguments, *typed), log=log, folder=folder_of(str(file))
        )
        from tuner.inputs.launch_input import with_config  # few logs have overrides alone

        return with_config(given, file.parent)
    if log.command:
        from tuner.inputs.launch_input import launched
        from tuner.inputs.script import read_script

        script = read_script(file, log.command.encode(), ())
        if script.launches:
            given = launched(file, script, (), None)
            arguments = [
                replace(argument, location=_in_log(argument.location, log)) for argument in given.arguments
            ]
            return replace(given, arguments=(*arguments, *typed), log=log)
    raise InputError(
        _("the log holds no configuration"),
        location=Location(source=str(file)),
        hint=_(
            "give the script that it is of: tuner advise run.sh --log {log}; or a log from the start of the "
            "job, where the trainer prints its settings; an error alone is explained by: tuner explain-oom "
            "--message {log}"
        ).format(log=file),
    )


def _in_log(place: Location, log: "RunLog") -> Location:
    """A place in the command that a log holds, as one in the log."""
    if place.line is None or log.command_line is None:
        return Location(source=place.source)
    return Location(source=place.source, line=log.command_line + place.line - 1)
