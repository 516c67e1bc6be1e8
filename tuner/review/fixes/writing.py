"""Writes a user's file anew: wholly or not at all, with its mode, and only if nobody else has changed it."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from tuner.errors import InputError, Location
from tuner.language import _


def write_over(file: Path, *, before: bytes, after: bytes) -> None:
    """Give a file other bytes. Where it is a link, the file behind it gets them and the link stays.

    Raises:
        InputError: the file is no longer what was read, has a second name, or cannot be written.
    """
    where = Location(source=str(file))
    try:
        real = file.resolve(strict=True)
        state = real.stat()
        if not stat.S_ISREG(state.st_mode):
            raise InputError(_("it is no regular file: nothing is written"), location=where)
        if state.st_nlink > 1:
            raise InputError(
                _("the file has a second name (a hard link), which would keep the old text"),
                location=where,
                hint=_("paste the overrides instead"),
            )
        if not os.access(real, os.W_OK):
            raise InputError(_("the file is write-protected"), location=where)
        _replaced(real, state, before, after, where)
    except OSError as error:
        raise InputError(
            _("the file cannot be written: {reason}").format(reason=error.strerror or error), location=where
        ) from None


def write_new(file: Path, data: bytes) -> None:
    """Write a file that is not there yet.

    Raises:
        InputError: there is one, or it cannot be written.
    """
    try:
        with file.open("xb") as stream:
            stream.write(data)
    except FileExistsError:
        raise InputError(
            _("the file is there already"),
            location=Location(source=str(file)),
            hint=_("give the configuration itself, or a name that nothing has"),
        ) from None
    except OSError as error:
        raise InputError(
            _("the file cannot be written: {reason}").format(reason=error.strerror or error),
            location=Location(source=str(file)),
        ) from None


def _replaced(real: Path, state: os.stat_result, before: bytes, after: bytes, where: Location) -> None:
    """Write beside the file, and let the new file take its name in one step."""
    handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(after)
            stream.flush()
            os.fsync(stream.fileno())
            with contextlib.suppress(PermissionError):  # the file is another user's
                os.fchown(stream.fileno(), state.st_uid, state.st_gid)
            os.fchmod(stream.fileno(), stat.S_IMODE(state.st_mode))
        if real.read_bytes() != before:
            raise InputError(
                _("the file has been changed meanwhile: nothing is written"),
                location=where,
                hint=_("run it again"),
            )
        Path(name).replace(real)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
