"""Errors as they are printed: whatever they are about, short, on one line and without secrets."""

import sys

import typer

from tuner.errors import TunerError, message_of
from tuner.inputs.secrets import without_secrets
from tuner.render.terminal import plain

_MOST_CHARACTERS = 500  # of each part of an error that repeats what the user gave
_MOST_OF_A_HINT = 1_500  # which may list what there is


def told(error: TunerError) -> str:
    """The message of an error."""
    return plain(
        message_of(
            where=_part(error.location),
            key=_part(error.key),
            message=_part(error.message) or "",
            hint=_part(error.hint, _MOST_OF_A_HINT),
        )
    )


def told_of_usage(message: str) -> str:
    """What typer says of an option or a command that it does not take."""
    return _part(message) or "" if len(sys.argv) > 1 else message  # the help, where nothing was typed


def say(message: str) -> None:
    """Print one line of an error."""
    typer.echo(message, err=True)


def cut(text: str, most: int = _MOST_CHARACTERS) -> str:
    """A text with its middle left out where it is long."""
    return text if len(text) <= most else f"{text[: most * 3 // 4]} ... {text[-most // 4 :]}"


def _part(value: object, most: int = _MOST_CHARACTERS) -> str | None:
    return None if value is None else cut(without_secrets(str(value)), most)
