"""The text of an error: a file, standard input, or the line itself."""

from pathlib import Path

from tuner.errors import InputError, Location
from tuner.files import read_bytes
from tuner.inputs.secrets import without_secrets
from tuner.language import _
from tuner.units import MIB

MAX_BYTES = 16 * MIB  # a log has its errors at its end


def read_pasted(given: str) -> str:
    """The text behind an option, without secrets: what a file or standard input holds, read as UTF-8.

    Raises:
        InputError: it cannot be read, is no text, or is too large.
    """
    data = read_bytes(
        Path(given),
        most=MAX_BYTES,
        of_folder=_("give the file with the error"),
        too_large=_("give the error and the traceback above it: tail -n 2000 FILE"),
    )
    return without_secrets(_decoded(data, Location(source=given)))


def _decoded(data: bytes, where: Location) -> str:
    if b"\0" in data:
        raise InputError(_("the file is binary, not text"), location=where, hint=_("give what was printed"))
    return data.decode("utf-8-sig", "replace")
