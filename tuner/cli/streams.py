"""Standard output and standard error of the process, which say themselves why they take nothing."""

import io
import os
import sys
from typing import TextIO

OUTPUT, ERROR = "standard output", "standard error"  # as errors name them, in every language


class Stream(io.TextIOWrapper):
    """A text stream whose errors have its name, as those of files have theirs."""

    called = ""

    def write(self, text: str, /) -> int:
        """Write, see io.TextIOWrapper."""
        try:
            return super().write(text)
        except OSError as error:
            raise _named(error, self.called) from None

    def flush(self) -> None:
        """Flush, see io.TextIOWrapper."""
        try:
            super().flush()
        except OSError as error:
            raise _named(error, self.called) from None


def name_streams() -> None:
    """Put streams that name themselves in place of those of the interpreter, also for closed ones.

    What the shell has closed is opened again, to be read only: no file that is opened later takes its number
    and gets what is printed, and what is written to it fails as it does in any program.
    """
    for number in (0, 1, 2):
        _open_again(number)
    for name, number, called in (("stdout", 1, OUTPUT), ("stderr", 2, ERROR)):
        stream = _stream(getattr(sys, name), number, called)
        for attribute in (name, f"__{name}__"):  # the other one is what the interpreter's end goes back to
            setattr(sys, attribute, stream)


def _open_again(number: int) -> None:
    try:
        os.fstat(number)
    except OSError:
        os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)  # the lowest number that is free: this one


def _stream(stream: TextIO | None, number: int, called: str) -> TextIO:
    if stream is None:
        raw = io.FileIO(number, "w", closefd=False)
        named = Stream(io.BufferedWriter(raw), encoding="utf-8", line_buffering=number == 2)
    elif isinstance(stream, io.TextIOWrapper):
        encoding, lines, through = stream.encoding, stream.line_buffering, stream.write_through
        named = Stream(stream.detach(), encoding=encoding, line_buffering=lines, write_through=through)
    else:
        return stream
    named.called = called
    return named


def _named(error: OSError, called: str) -> OSError:
    return OSError(error.errno, error.strerror, called)  # of the class of its number, as BrokenPipeError
