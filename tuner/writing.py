"""Writes a user's file: wholly or not at all, with its mode, attributes and access lists.

The new content is written beside the file and takes its name in one step. What a run leaves beside it that is
killed in between, the next one removes.
"""

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tuner.errors import InputError, Location
from tuner.language import _
from tuner.part_files import PartFile, remove_leftovers

_WRITE_BITS = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH


def write_over(file: Path, *, before: bytes, after: bytes) -> None:
    """Give a file other bytes, if nobody else has changed it.

    Where it is a link, the file behind it gets them and the link stays.

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
        _expect_writable(real, state, where)
        _replaced(real, state, before, after, where)
    except OSError as error:
        raise not_written(file, error) from None


def write_new(file: Path, data: bytes) -> None:
    """Write a file that is not there yet.

    Raises:
        InputError: there is one, or it cannot be written.
    """
    try:
        with file.open("xb") as stream:
            try:
                stream.write(data)
                stream.flush()
            except BaseException:
                file.unlink(missing_ok=True)  # a part of it
                raise
    except FileExistsError:
        raise InputError(
            _("the file is there already"),
            location=Location(source=str(file)),
            hint=_("give the configuration itself, or a name that nothing has"),
        ) from None
    except OSError as error:
        raise not_written(file, error) from None


def write_output(file: Path, texts: Iterable[str]) -> None:
    """Write what a command was asked to write into a file; one that was there stays where that fails.

    A device or a pipe gets it as it comes, and so does a file whose folder takes no other one.

    Raises:
        InputError: it cannot be written.
    """
    try:
        state = file.stat() if file.exists() else None
        regular = state is None or stat.S_ISREG(state.st_mode)
        if state is not None and regular:
            _expect_writable(file, state, Location(source=str(file)))
        linked = state is not None and state.st_nlink > 1
        if not regular or linked or _is_of_a_process(file) or not os.access(_folder(file), os.W_OK):
            with file.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
                stream.writelines(texts)
            return
        remove_leftovers([file.resolve()])
        with PartFile(file.resolve(), state) as part:
            for text in texts:
                part.stream.write(text.encode("utf-8", "backslashreplace"))
            part.take_the_name()
    except OSError as error:
        raise not_written(file, error) from None
    except ValueError as error:  # no name of a file
        raise InputError(
            _("the file cannot be written: {reason}").format(reason=error),
            location=Location(source=str(file)),
        ) from None


def _is_of_a_process(file: Path) -> bool:
    """Whether it is a name for what a process has open, such as /dev/stdout."""
    return file.absolute().parts[1:2] in (("dev",), ("proc",))


def _folder(file: Path) -> Path:
    return file.resolve().parent


def not_written(file: Path, error: OSError) -> InputError:
    """The error of a file that cannot be written, with what helps."""
    return InputError(
        _("the file cannot be written: {reason}").format(reason=error.strerror or error),
        location=Location(source=str(file)),
        hint=_hint(error.errno),
    )


def _hint(number: int | None) -> str | None:
    if number in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
        return _("name a file in a folder that is there")
    if number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return _("make room, or name a file on another disk")
    if number == errno.EROFS:
        return _("name a file on a disk that can be written to")
    return None


def _expect_writable(real: Path, state: os.stat_result, where: Location) -> None:
    """Refuse a file that its owner has protected: a superuser's permission is not asked for that."""
    if not state.st_mode & _WRITE_BITS or not os.access(real, os.W_OK):
        raise InputError(
            _("the file is write-protected"), location=where, hint=_("make it writable first, with chmod u+w")
        )


def _replaced(real: Path, state: os.stat_result, before: bytes, after: bytes, where: Location) -> None:
    remove_leftovers([real])
    with PartFile(real, state) as part:
        part.stream.write(after)
        part.flush()
        if real.read_bytes() != before:
            raise InputError(
                _("the file has been changed meanwhile: nothing is written"),
                location=where,
                hint=_("run it again"),
            )
        with suppress(FileNotFoundError):
            part.take_the_name()
            return
        raise InputError(  # somebody has removed what was written beside it
            _("the file has been changed meanwhile: nothing is written"),
            location=where,
            hint=_("run it again"),
        )
