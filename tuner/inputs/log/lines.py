"""The lines of a log, cut to a length that a line of metrics has."""

from collections.abc import Iterator

from msgspec import Struct

from tuner.inputs.log.ends import Ends

LONGEST = 64 * 1024  # bytes of a line; one with the metrics of a step has some 8,000


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
