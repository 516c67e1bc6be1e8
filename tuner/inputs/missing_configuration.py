"""Says in words what is missing of a configuration that a launch names, and where it was looked for."""

from collections.abc import Sequence
from pathlib import Path

from tuner.inputs.user_input import MissingConfiguration, UserInput
from tuner.language import _
from tuner.shown_paths import shown_path

_NAMED = 3  # folders in one message


def missing_text(missing: MissingConfiguration) -> str:
    """What is missing, without a full stop."""
    if not missing.name:
        return _("the configuration of the launch is not known: {reason}").format(reason=missing.reason)
    if missing.reason:
        return _("the configuration {name} cannot be composed: {reason}").format(
            name=missing.name, reason=missing.reason
        )
    if not missing.looked_in:
        return _("the configuration {name} is not here").format(name=missing.name)
    return _("the configuration {name} is not here: looked for in {folders}").format(
        name=missing.name, folders=_folders(missing.looked_in)
    )


def unknown_program_text(given: UserInput) -> str:
    """Why nobody knows what the program of a launch sets by itself, without a full stop.

    Empty where its file is here and names a configuration.

    Args:
        given: the launch, whose program is none of the trainer's own.
    """
    from tuner.inputs.program.find import program_file, starting_folders  # of few launches

    starts = starting_folders(given.folder, given.folders)
    program = program_file(given.program, starts)
    if program is None:
        return program_missing_text(given.program, starts)
    if program.config is None:
        return _("the program {file} names no configuration that can be told").format(
            file=shown_path(str(program.file))
        )
    return ""


def program_missing_text(program: str, starts: Sequence[Path]) -> str:
    """What is missing of a launch whose program is not in its tree, without a full stop."""
    return _("the program {program}, which may name one, is not here: looked for in {folders}").format(
        program=program, folders=_folders(tuple(map(str, starts)))
    )


def _folders(looked_in: tuple[str, ...]) -> str:
    named, rest = tuple(map(shown_path, looked_in[:_NAMED])), len(looked_in) - _NAMED
    words = [*named, _("{count} more").format(count=rest)] if rest > 0 else named
    return _(", ").join(words)
