"""Errors as they are printed: whatever they are about, short, on one line and without secrets."""

import sys

import typer

from tuner.errors import MOST_CHARACTERS, TunerError, cut, message_of
from tuner.inputs.secrets import without_secrets
from tuner.render.terminal import plain

_MOST_OF_A_HINT = 1_500  # which may list what there is


def error_text(error: TunerError) -> str:
    """The message of an error."""
    return plain(
        message_of(
            where=_part(error.location),
            key=_part(error.key),
            message=_part(error.message) or "",
            hint=_part(error.hint, _MOST_OF_A_HINT),
        )
    )


def usage_error_text(message: str) -> str:
    """What typer says of an option or a command that it does not take."""
    return _part(message) or "" if len(sys.argv) > 1 else message  # the help, where nothing was typed


def say(message: str) -> None:
    """Print one line of an error."""
    typer.echo(message, err=True)


def _part(value: object, most: int = MOST_CHARACTERS) -> str | None:
    return None if value is None else cut(without_secrets(str(value)), most)
