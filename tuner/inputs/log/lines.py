"""The lines of a log at its two ends: a run says there how it began and how it went."""

import io
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

from msgspec import Struct

from tuner.units import MIB

END_BYTES = 16 * MIB  # of the beginning, and of the end
_MOST_BYTES = 1024 * MIB  # of a pipe, which cannot be read from its end
_PIECE = MIB


LONGEST = 64 * 1024  # bytes of a line; one with the metrics of a step has some 8,000


class Ends(Struct, frozen=True, kw_only=True):
    """A text, or its beginning and its end where it is too large to be read as a whole."""

    beginning: bytes
    end: bytes = b""  # empty where the beginning is all
    cut_bytes: int = 0  # between the two
    unread: bool = False  # the pipe goes on behind the end


def read_ends(start: bytes, stream: BinaryIO, *, end_bytes: int = END_BYTES) -> Ends:
    """Read a stream to its end, and keep no more of it than its two ends.

    Args:
        start: what was already read of it.
        stream: the rest.
        end_bytes: how much of each end is kept.
    """
    beginning = start + stream.read(max(0, end_bytes - len(start)))
    rest = _size_behind(stream)
    if rest is None:
        return _of_pipe(beginning, stream, end_bytes)
    cut = max(0, rest - end_bytes)
    stream.seek(cut, io.SEEK_CUR)
    end = stream.read(end_bytes)
    return _joined_ends(beginning, end) if cut == 0 else Ends(beginning=beginning, end=end, cut_bytes=cut)


def _size_behind(stream: BinaryIO) -> int | None:
    """The bytes that were not read yet; None where only reading would tell."""
    try:
        if not stream.seekable():
            return None
        place = stream.tell()
        end = stream.seek(0, io.SEEK_END)
        stream.seek(place)
    except OSError:
        return None
    return max(0, end - place)


def _of_pipe(beginning: bytes, stream: BinaryIO, end_bytes: int) -> Ends:
    chunks: deque[bytes] = deque()
    held = cut = 0
    while len(beginning) + cut + held < _MOST_BYTES:
        piece = stream.read(_PIECE)
        if not piece:
            break
        chunks.append(piece)
        held += len(piece)
        while held - len(chunks[0]) >= end_bytes:
            dropped = len(chunks.popleft())
            held, cut = held - dropped, cut + dropped
    unread = len(beginning) + cut + held >= _MOST_BYTES
    end = b"".join(chunks)
    if cut == 0 and not unread:
        return _joined_ends(beginning, end)
    return Ends(beginning=beginning, end=end, cut_bytes=cut, unread=unread)


def _joined_ends(beginning: bytes, end: bytes) -> Ends:
    return Ends(beginning=beginning + end)


class LogLine(Struct, frozen=True, kw_only=True):
    """A line of the log."""

    text: str
    number: int | None  # from 1; None behind what was not read


def lines_of(ends: Ends) -> Iterator[LogLine]:
    """The lines of both ends, in order; a line that the cut goes through is left out of the second."""
    for number, raw in enumerate(ends.beginning.split(b"\n"), start=1):
        yield LogLine(text=_decoded(raw), number=number)
    if ends.end:
        for raw in ends.end.split(b"\n")[1:]:
            yield LogLine(text=_decoded(raw), number=None)


def _decoded(raw: bytes) -> str:
    return raw[:LONGEST].decode("utf-8", "replace").rstrip("\r")
