"""The text of an error: a file, standard input, or the line itself."""

import sys
from pathlib import Path
from typing import BinaryIO

from tuner.errors import InputError, Location
from tuner.inputs.yaml_file import STANDARD_INPUT
from tuner.language import _
from tuner.units import MIB

MAX_BYTES = 16 * MIB  # a log has its errors at its end


def is_file(given: str) -> bool:
    """Whether an option names a file that is there; a line of an error may be too long for a name."""
    try:
        return given == STANDARD_INPUT or Path(given).exists()
    except (OSError, ValueError):
        return False


def read_pasted(given: str) -> str:
    """The text behind an option: what a file or standard input holds, with what is not UTF-8 replaced.

    Raises:
        InputError: it cannot be read, is no text, or is too large.
    """
    where = Location(source=given)
    if given == STANDARD_INPUT:
        return _decoded(_read(sys.stdin.buffer, where), where)
    try:
        if Path(given).is_dir():
            raise InputError(_("is a directory"), location=where, hint=_("give the file with the error"))
        with Path(given).open("rb") as stream:
            return _decoded(_read(stream, where), where)
    except FileNotFoundError:
        raise InputError(
            _("there is no such file"),
            location=where,
            hint=_("check the path, or give - and paste the error on standard input"),
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            _("the file cannot be read: {reason}").format(reason=reason), location=where
        ) from None


def _read(stream: BinaryIO, where: Location) -> bytes:
    data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(
            _("the file is larger than the limit of {max} MiB").format(max=MAX_BYTES // MIB),
            location=where,
            hint=_("give the error and the traceback above it: tail -n 2000 FILE"),
        )
    return data


def _decoded(data: bytes, where: Location) -> str:
    if b"\0" in data:
        raise InputError(_("the file is binary, not text"), location=where, hint=_("give what was printed"))
    return data.decode("utf-8-sig", "replace")
