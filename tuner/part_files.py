"""Files that are being written beside the ones whose names they take, and what is left of them.

Such a file is called ``.NAME.PID.RANDOM.tuner-part``. While the process that writes it lives, it holds a lock
on it, which the system takes away however the process ends.
"""

import errno
import os
import re
import secrets
import stat
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from tuner.errors import InputError, Location
from tuner.language import _

_END = ".tuner-part"
_MOST_OF_A_NAME = 100  # bytes of the file's own name
#: Attributes that are the system's to give: a label of its policy, a hash of the content.
_OF_THE_SYSTEM = ("security.", "trusted.", "system.nfs4", "com.apple.")
_ACCESS_LIST = "system.posix_acl_access"


class PartFile:
    """A file that is being written and takes the name of another one, or is removed.

    Args:
        real: the file whose name it takes.
        state: of that file; None where there is none yet.
    """

    stream: BinaryIO

    def __init__(self, real: Path, state: os.stat_result | None) -> None:
        self._real, self._state = real, state
        self._path = real.parent / f"{_beginning(real)}{os.getpid()}.{secrets.token_hex(4)}{_END}"

    def __enter__(self) -> "PartFile":
        """Create and lock it; nobody else may read it before it has the mode of the other one."""
        mode = 0o666 if self._state is None else 0o600
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        self.stream = os.fdopen(descriptor, "wb")
        _lock(descriptor)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove it, unless it has taken the name."""
        with suppress(OSError):  # a full disk, which has been told
            self.stream.close()
        self._path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Have what was written on the disk."""
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def take_the_name(self) -> None:
        """Take the name of the other file, with its mode, owner and attributes.

        Raises:
            InputError: an attribute of the other file would be lost.
        """
        self.flush()
        if self._state is not None:
            with suppress(PermissionError):  # the file is another user's
                if hasattr(os, "chown"):
                    os.chown(self._path, self._state.st_uid, self._state.st_gid)
            self._path.chmod(stat.S_IMODE(self._state.st_mode))
            _copy_attributes(self._real, self.stream.fileno())
        self._path.replace(self._real)


def remove_leftovers(files: Iterable[Path]) -> None:
    """Remove what runs that were killed have left beside some files.

    What a process writes that is alive stays: its number is one of this machine's, or it holds the lock.
    """
    if os.name != "posix":  # where nobody can be asked whether a process lives
        return
    folders: dict[Path, set[str]] = defaultdict(set)
    for file in files:
        folders[file.parent].add(_beginning(file))
    for folder, beginnings in folders.items():
        with suppress(OSError):  # a folder that cannot be listed: nothing of ours can be there
            for entry in folder.iterdir():
                part = _PART.fullmatch(entry.name)
                if part is not None and part["beginning"] in beginnings:
                    _remove(entry, int(part["process"]))


_PART = re.compile(rf"(?P<beginning>\..*\.)(?P<process>\d+)\.[0-9a-f]{{8}}{re.escape(_END)}", re.DOTALL)


def _beginning(real: Path) -> str:
    return f".{os.fsencode(real.name)[:_MOST_OF_A_NAME].decode('utf-8', 'ignore')}."


def _remove(part: Path, process: int) -> None:
    if _lives(process):
        return
    with suppress(OSError):  # somebody else's, or gone meanwhile
        descriptor = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if _lock(descriptor):
                part.unlink()
        finally:
            os.close(descriptor)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return process != os.getpid()  # this one has begun nothing yet: the number is used again


def _lock(descriptor: int) -> bool:
    """Whether it could be locked, or need not be, where the file system knows no locks."""
    if os.name != "posix":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _copy_attributes(real: Path, descriptor: int) -> None:
    """Give extended attributes, and with them access lists, to the file that takes the place of another one.

    Raises:
        InputError: one cannot be kept.
    """
    if not hasattr(os, "listxattr"):  # only Linux has them in Python
        return
    try:
        names = os.listxattr(real)
        if _ACCESS_LIST in set(os.listxattr(descriptor)).difference(names):  # the folder's, for new files
            os.removexattr(descriptor, _ACCESS_LIST)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.ENOSYS):
            return
        raise
    for name in names:
        _copy_attribute(name, real, descriptor)


def _copy_attribute(name: str, real: Path, descriptor: int) -> None:
    try:
        value = os.getxattr(real, name)
        if name not in os.listxattr(descriptor) or os.getxattr(descriptor, name) != value:
            os.setxattr(descriptor, name, value)
    except OSError as error:
        if name.startswith(_OF_THE_SYSTEM):
            return
        raise InputError(
            _("the attribute {name} of the file would be lost ({reason}): nothing is written").format(
                name=name, reason=error.strerror
            ),
            location=Location(source=str(real)),
            hint=_("paste the overrides instead"),
        ) from None
