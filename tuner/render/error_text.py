"""Errors as they are printed: whatever they are about, short, on one line and without secrets."""

from tuner.errors import MOST_CHARACTERS, TunerError, cut, message_of
from tuner.inputs.secrets import without_secrets
from tuner.render.terminal import plain

_MOST_OF_A_HINT = 1_500  # which may list what there is


def error_text(error: TunerError) -> str:
    """The message of an error."""
    return plain(
        message_of(
            where=in_short(error.location),
            key=in_short(error.key),
            message=in_short(error.message) or "",
            hint=in_short(error.hint, _MOST_OF_A_HINT),
        )
    )


def in_short(value: object, most: int = MOST_CHARACTERS) -> str | None:
    """A part of a message, cut and without secrets; None where there is none."""
    return None if value is None else cut(without_secrets(str(value)), most)
