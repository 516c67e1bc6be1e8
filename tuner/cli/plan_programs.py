"""A plan that another program runs, as a script: the user's own where it takes that, else the command.

A YAML file says no program, so what is made of one is the whole command as well.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.advise.combine import one_per_key
from tuner.cli.plan_files import FileText, PlannedFile, command_text, in_its_form
from tuner.consultation.consult import job_of
from tuner.consultation.placement import command, own_overrides
from tuner.consultation.planning import PlanAnswer
from tuner.errors import InputError, TunerError
from tuner.inputs.named_inputs import is_shell
from tuner.inputs.overrides import CONFIG_OPTIONS
from tuner.inputs.secrets import carried, hidden_override
from tuner.language import _
from tuner.other_base import OtherBase
from tuner.override_text import override_key
from tuner.plan.answer import LaunchNeeds
from tuner.review.fixes.edits import CannotEditError, applied
from tuner.review.fixes.script import LaunchScript, Word
from tuner.review.input_findings import Edit
from tuner.trainers.placement import PlacedLaunch

_SHELL = ".sh"


def program_texts(
    planned: PlannedFile, answer: PlanAnswer, source: str, words: Sequence[str], launch: int | None
) -> Iterator[FileText]:
    """The job under another program: in the user's own script where that takes it, and as a command alone.

    Args:
        planned: a setting that needs another program than the launch starts.
        answer: the plan.
        source: a file, or the first word of a pasted command.
        words: what follows it.
        launch: which launch of a script is meant, from 1.

    Raises:
        InputError: the settings cannot be read again.
    """
    given, reason = answer.job.given, ""
    assert planned.needs is not None  # asked of those alone
    if given.text and is_shell(given.source, given.text):
        reason = _("written there it would be read otherwise")
        try:
            yield _in_the_script(planned, planned.needs, answer, source, words, launch)
        except CannotEditError as error:
            reason = str(error)
    yield _alone(planned, planned.needs, answer, source, words, reason)


def _in_the_script(
    planned: PlannedFile,
    needs: OtherBase | PlacedLaunch,
    answer: PlanAnswer,
    source: str,
    words: Sequence[str],
    launch: int | None,
) -> FileText:
    """The user's script with all overrides, which starts the other program.

    Raises:
        CannotEditError: it cannot take them.
    """
    if _without(needs):
        reason = _("keys stand in it that the other configuration does not have: {keys}")
        raise CannotEditError(reason.format(keys=", ".join(_without(needs))))
    text = in_its_form(planned.setting, answer, source, words, launch)
    script = LaunchScript(
        path=Path(answer.job.given.source),
        data=text.data,
        arguments=text.words,
        number=launch or 1,
        machine=answer.job.given.machine,
    )
    started = script.read.launches[script.number - 1]
    if any(str(one.text).partition("=")[0] in CONFIG_OPTIONS for one in started.arguments):
        raise CannotEditError(_("its launch names a configuration of its own"))
    word = _program_word(script)
    module = "" if word.text == started.program and not _is_file(started.program) else "-m "
    program = word.written if needs.program == started.program else f"{module}{needs.program}"
    program = " ".join((program, *map(shlex.quote, needs.options)))
    edit = Edit(start=word.start, end=word.end, text=program)
    return FileText(
        suffix=_SHELL, data=applied(text.data, [edit]), words=text.words, takes_launch=text.takes_launch
    )


def _without(needs: OtherBase | PlacedLaunch) -> tuple[str, ...]:
    """Keys of the user's that the other configuration does not have."""
    return needs.without if isinstance(needs, LaunchNeeds) else ()


def _is_file(program: str) -> bool:
    return program.endswith(".py")


def _program_word(script: LaunchScript) -> Word:
    """The word of a script that names the program of the meant launch.

    Raises:
        CannotEditError: it is not written out, or more than once.
    """
    started = script.read.launches[script.number - 1]
    named = [one for one in script.words if one.text == started.program]
    here = [one for one in named if one.holder.start_point[0] + 1 == started.location.line]
    if len(here or named) != 1 or started.location.source != script.source.file:
        raise CannotEditError(_("the program is not written out in the script, or more than once"))
    return (here or named)[0]


def _alone(
    planned: PlannedFile,
    needs: OtherBase | PlacedLaunch,
    answer: PlanAnswer,
    source: str,
    words: Sequence[str],
    reason: str,
) -> FileText:
    """The whole command, with everything that the user sets as it was given.

    Raises:
        InputError: the settings cannot be read again.
    """
    try:
        with carried():
            job, _said = job_of(source, words, answer.premises)
            overrides = one_per_key((*own_overrides(job, _without(needs)), *planned.setting.overrides))
            secret = [one for one in overrides if hidden_override(one) != one]
    except TunerError as error:
        raise InputError(str(error)) from None
    secrets = ""
    if secret:
        keys = ", ".join(dict.fromkeys(map(override_key, secret)))
        secrets = _("these values look like secrets, and are written as they stand: {keys}").format(keys=keys)
    return FileText(
        suffix=_SHELL, data=command_text(command(needs, ()), overrides), command_alone=reason, secrets=secrets
    )
