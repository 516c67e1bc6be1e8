"""Reads a user's file as bytes: within a limit, and without waiting for what never comes."""

import fnmatch
import io
import os
import select
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tuner.errors import InputError, Location
from tuner.language import _
from tuner.units import KIB, MIB

STANDARD_INPUT = "-"

_PIECE_BYTES = 64 * KIB
_FOLDERS_UP = 8  # in which the top of a repository is looked for
_PATIENCE_MS = 1_000  # for a program that begins to write into a named pipe
#: Where the names of files that are read are put, while somebody asks for them.
_NOTED: ContextVar[set[str] | None] = ContextVar("_NOTED", default=None)
#: Folders below which alone the process reads; None: wherever somebody points. No context variable, since
#: threads have their own, and since each question of the file system asks for it.
_readable: tuple[str, ...] | None = None


#: The same questions as functions of texts, which make no path of each place that is looked at.
_OF_TEXT: dict[Callable[[Path], bool], Callable[[str | Path], bool]] = {
    Path.exists: os.path.exists,
    Path.is_file: os.path.isfile,
    Path.is_dir: os.path.isdir,
}


def files_like(folder: Path, pattern: str) -> list[Path]:
    """The entries of a folder whose names a pattern such as ``scripts/*install*.sh`` takes, in order.

    ``Path.glob`` asks the file system and a regular expression of each entry of a folder; this one only of
    those that have the longest literal part of the pattern. A folder that cannot be read has none.
    """
    below, _slash, form = pattern.rpartition("/")
    place = folder / below if below else folder
    if _readable is not None and not is_readable(place):
        return []
    try:
        names = os.listdir(place)  # noqa: PTH208 -- of texts, as above
    except OSError:
        return []
    literal = max(form.replace("?", "*").split("*"), key=len)
    likely = [name for name in names if literal in name]
    return [place / name for name in sorted(fnmatch.filter(likely, form))] if likely else []


def is_there(path: str | Path, kind: Callable[[Path], bool] = Path.exists) -> bool:
    """Whether a path leads to something, be it of a kind such as ``Path.is_file``.

    What the file system cannot have (too long a name, no permission to look) is not there, nor is what lies
    where the process does not read.
    """
    if _readable is not None and not is_readable(path):
        return False
    of_text = _OF_TEXT.get(kind)
    try:
        return kind(Path(path)) if of_text is None else of_text(path)
    except (OSError, ValueError):
        return False


@contextmanager
def reading_only_below(*folders: Path) -> Iterator[None]:
    """While it lasts, the process reads no file but those below some folders, wherever a link leads.

    What lies elsewhere is as if it were not there, and standard input is none of a user's.
    """
    global _readable
    before, _readable = _readable, tuple(os.path.realpath(folder) for folder in folders)
    try:
        yield
    finally:
        _readable = before


def is_readable(path: str | Path) -> bool:
    """Whether a path lies, with all links followed, where the process reads."""
    if _readable is None:
        return True
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):  # such as a name with a zero byte
        return False
    return any(real == folder or real.startswith(os.path.join(folder, "")) for folder in _readable)  # noqa: PTH118


@contextmanager
def file_names_read() -> Iterator[set[str]]:
    """The names of the files that are read meanwhile, as they were given."""
    names: set[str] = set()
    outer = _NOTED.get()
    token = _NOTED.set(names)
    try:
        yield names
    finally:
        _NOTED.reset(token)
        if outer is not None:
            outer |= names


def note(names: Iterable[str]) -> None:
    """Have files counted as read that something remembers the content of."""
    noted_names = _NOTED.get()
    if noted_names is not None:
        noted_names.update(names)


@contextmanager
def opened(file: Path, *, most: int, of_folder: str | None = None) -> Iterator[tuple[bytes, BinaryIO]]:
    """A file, or standard input where it is ``-``: its first bytes, and the stream that goes on behind them.

    Args:
        file: what to read; a device or a pipe may be read as well.
        most: how many first bytes.
        of_folder: what to do where it is a folder.

    Raises:
        InputError: it is not there or cannot be read, or nobody writes into the pipe that it is.
    """
    where = Location(source=str(file))
    if _readable is not None and (str(file) == STANDARD_INPUT or not is_readable(file)):
        raise InputError(
            _("lies outside of {root}, below which alone files are read").format(root=_readable[0]),
            location=where,
        )
    note([str(file)])
    try:
        with _standard_input() if str(file) == STANDARD_INPUT else _opened(file) as (begun, stream):
            yield begun + b"".join(_pieces(stream, most - len(begun))), stream
    except FileNotFoundError:
        raise InputError(_("there is no such file"), location=where, hint=_("check the path")) from None
    except IsADirectoryError:
        raise InputError(_("is a directory"), location=where, hint=of_folder) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            _("the file cannot be read: {reason}").format(reason=reason), location=where
        ) from None


def expect_within(data: bytes, *, most: int, where: Location, too_large: str | None = None) -> None:
    """Refuse what is larger than a limit.

    Args:
        data: what was read, of which more than the limit is enough.
        most: bytes.
        where: it is from.
        too_large: what to do where it holds more.

    Raises:
        InputError: it is larger.
    """
    if len(data) > most:
        size = f"{most // MIB} MiB" if most >= MIB else f"{most // KIB} KiB"
        raise InputError(
            _("the file is larger than the limit of {size}").format(size=size), location=where, hint=too_large
        )


def read_bytes(file: Path, *, most: int, of_folder: str | None = None, too_large: str | None = None) -> bytes:
    """The content of a file, or of standard input where it is ``-``.

    Args:
        file: what to read; a device or a pipe is read up to the limit as well.
        most: bytes.
        of_folder: what to do where it is a folder.
        too_large: what to do where it holds more.

    Raises:
        InputError: it is not there, cannot be read or is larger, or nobody writes into the pipe that it is.
    """
    with opened(file, most=most + 1, of_folder=of_folder) as (data, _rest):
        expect_within(data, most=most, where=Location(source=str(file)), too_large=too_large)
        return data


_kept: bytearray | None = None  # what has been read of standard input; None: it is not kept


@contextmanager
def standard_input_kept() -> Iterator[None]:
    """While it lasts, what is read of standard input is kept, and read again by whoever opens it next."""
    global _kept
    before, _kept = _kept, bytearray()
    try:
        yield
    finally:
        _kept = before


#: What was made once for the question that is being answered, by what makes it; None where none is.
_AT_HAND: ContextVar[dict[Callable[[], Any], Any] | None] = ContextVar("_AT_HAND", default=None)
_T = TypeVar("_T")


@contextmanager
def files_unchanged() -> Iterator[None]:
    """While it lasts, what is remembered of files holds for whoever asks next, see :func:`at_hand`."""
    token = _AT_HAND.set({})
    try:
        yield
    finally:
        _AT_HAND.reset(token)


def at_hand(make: Callable[[], _T]) -> _T:
    """What remembers files: the same while :func:`files_unchanged` lasts, else a new one each time."""
    known = _AT_HAND.get()
    if known is None:
        return make()
    if make not in known:
        known[make] = make()
    made: _T = known[make]
    return made


class _Repeated(io.RawIOBase):
    """Standard input from its beginning: what is kept of it, then what comes, which is kept as well."""

    def __init__(self, kept: bytearray, rest: BinaryIO) -> None:
        self._kept, self._rest, self._at = kept, rest, 0

    def readable(self) -> bool:
        """Whether bytes can be taken from it: always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer as far as there is something."""
        if self._at == len(self._kept):
            self._kept += self._rest.read(len(buffer))
        piece = self._kept[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


@contextmanager
def _standard_input() -> Iterator[tuple[bytes, BinaryIO]]:
    if sys.stdin is None:  # the shell has closed it: <&-
        raise ValueError(_("standard input is closed"))
    if _kept is None:
        yield b"", sys.stdin.buffer
    else:
        yield b"", io.BufferedReader(_Repeated(_kept, sys.stdin.buffer))


@contextmanager
def _opened(file: Path) -> Iterator[tuple[bytes, BinaryIO]]:
    """A file, and what had to be taken out of it to know that somebody writes into it."""
    # Not blocking: a named pipe that nobody writes into would never be opened.
    descriptor = os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as stream:
        kind = os.fstat(descriptor).st_mode
        begun = _begun(descriptor) if stat.S_ISFIFO(kind) else b""
        if not stat.S_ISREG(kind):
            os.set_blocking(descriptor, True)
        yield begun, stream


def _pieces(stream: BinaryIO, most: int) -> Iterator[bytes]:
    """A stream up to a limit, piece by piece: to ask for all at once takes the memory of the limit."""
    while most > 0 and (piece := stream.read(min(most, _PIECE_BYTES))):
        most -= len(piece)
        yield piece


def _begun(descriptor: int) -> bytes:
    """Wait until somebody writes into a pipe; the first byte where it has been taken out already.

    Raises:
        ValueError: nobody does.
    """
    writing = select.poll()
    writing.register(descriptor, select.POLLIN)
    if writing.poll(_PATIENCE_MS):
        return b""
    try:
        first = os.read(descriptor, 1)
    except BlockingIOError:  # somebody has opened it to write and is slow
        return b""
    if not first:
        raise ValueError(_("no program writes into this pipe"))
    return first


def is_top_of_repository(folder: Path) -> bool:
    """Whether a folder is the top of a repository, and no part of another one as a submodule is."""
    git = folder / ".git"
    if not is_there(git, Path.is_file):
        return is_there(git)
    try:
        return b"/modules/" not in read_bytes(git, most=KIB)
    except InputError:
        return True


def repository_folders(folder: Path) -> Iterator[Path]:
    """A folder and those above it, up to the top of the repository that it belongs to."""
    for above in (folder, *list(folder.parents)[:_FOLDERS_UP]):
        yield above
        if is_top_of_repository(above):
            return
