"""Faults of the machine, which are no bugs of the program: what is full, closed, gone or used up."""

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path

from tuner.cli.streams import ERROR, OUTPUT
from tuner.language import N_, _
from tuner.render.terminal import silence

_STREAMS = {OUTPUT: N_("standard output"), ERROR: N_("standard error")}
_FULL = N_("make room on the disk; temporary files lie in the folder that TMPDIR names")
_HINTS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: N_("the limit is that of ulimit -f"),
    errno.EIO: N_("the disk or the terminal behind it has failed"),
    errno.EROFS: N_("temporary files lie in the folder that TMPDIR names"),
    errno.EMFILE: N_("the limit is that of ulimit -n"),
    errno.ENFILE: N_("other programs hold them"),
    errno.ENOMEM: N_("other programs hold it, or the limit of this one is too low"),
    errno.EAGAIN: N_("processes or threads are used up; the limit is that of ulimit -u"),
}
_NO_THREAD = "can't start new thread"  # of Python's RuntimeError


def fault_of(error: BaseException) -> str | None:
    """What the machine refused, in one line; None where the error is none of the machine's."""
    return next(filter(None, map(_fault_message, _causes(error))), None)


def silence_faulty(error: BaseException) -> None:
    """Send nowhere what a stream still holds that has failed: it would fail again when the process ends."""
    for cause in _causes(error):
        if isinstance(cause, OSError) and cause.filename in _STREAMS:
            silence(sys.stdout if cause.filename == OUTPUT else sys.stderr)


def _causes(error: BaseException) -> list[BaseException]:
    """An error and those behind it."""
    causes: list[BaseException] = []
    behind: BaseException | None = error
    while behind is not None and behind not in causes:
        causes.append(behind)
        behind = behind.__cause__ or behind.__context__
    return causes


def _fault_message(error: BaseException) -> str | None:
    if isinstance(error, MemoryError):
        return _line(os.strerror(errno.ENOMEM), None, errno.ENOMEM)
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return _line(os.strerror(errno.EAGAIN), None, errno.EAGAIN)
    if not isinstance(error, OSError):
        return None
    if error.filename in _STREAMS:
        return _of_stream(_(_STREAMS[error.filename]), error)
    if error.errno in _HINTS:
        return _line(error.strerror or str(error), error.filename, error.errno)
    if error.errno in (errno.ENOENT, errno.ESTALE) and not _has_working_directory():
        return _("the working directory is not there any more; change to one that is")
    return None


def _of_stream(stream: str, error: OSError) -> str:
    if error.errno == errno.EBADF:
        return _("{stream} is closed").format(stream=stream)
    return _("{stream} cannot be written: {reason}").format(stream=stream, reason=error.strerror or error)


def _line(reason: str, file: object, number: int) -> str:
    where = "" if file is None else f"{os.fsdecode(file) if isinstance(file, bytes) else file}: "
    return where + _("{reason}; {hint}").format(reason=reason, hint=_(_HINTS[number]))


def _has_working_directory() -> bool:
    with suppress(OSError):
        return bool(Path.cwd())
    return False
