"""Puts inputs that are alike next to each other, so that what is worked out for one serves the next.

Thousands of configurations are mostly variants of a few. A process remembers what it has counted of the last
proposals and passes: judged one after the other, variants of one job find there what they share.
"""

import re
import zlib
from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path

from tuner.files import STANDARD_INPUT
from tuner.inputs.named_inputs import Input
from tuner.review.spool import Spool

_NUMBERS = re.compile(rb"[0-9]+")
_COMPARED = 4096  # first bytes of an input: enough to tell variants of one job from other jobs
_SORTED_AT_ONCE = 512  # inputs whose first bytes are in memory
_LEVEL = 1  # of zlib

Ranked = tuple[bytes, bytes, int]
"""What an input is sorted by, and its place."""


def by_likeness(inputs: Sequence[Input]) -> list[int]:
    """The places of the inputs in an order in which alike ones follow each other.

    Alike are those with the same text but for its numbers, and next to these whose texts begin alike. Parts
    of the inputs are sorted one after the other and then merged, so that few texts are in memory.
    """
    spool = Spool(len(inputs))
    parts = []
    for start in range(0, len(inputs), _SORTED_AT_ONCE):
        end = min(start + _SORTED_AT_ONCE, len(inputs))
        ranked = sorted(_ranked(_beginning(inputs[place]), place) for place in range(start, end))
        if end - start == len(inputs):
            return [place for _shape, _text, place in ranked]
        for _shape, text, place in ranked:
            spool.put(place, zlib.compress(text, _LEVEL))
        parts.append(_read_again(spool, [place for _shape, _text, place in ranked]))
    return [place for _shape, _text, place in merge(*parts)]


def _read_again(spool: Spool, places: Sequence[int]) -> Iterator[Ranked]:
    return (_ranked(zlib.decompress(spool.get(place)), place) for place in places)


def _ranked(text: bytes, place: int) -> Ranked:
    return _NUMBERS.sub(b"", text), text, place


def _beginning(given: Input) -> bytes:
    """The first bytes of a file; nothing of what is no plain file or cannot be read, which is told later."""
    if given.pasted or given.config == STANDARD_INPUT:
        return b""
    file = Path(given.config)
    try:
        if not file.is_file():
            return b""
        with file.open("rb") as stream:
            return stream.read(_COMPARED)
    except (OSError, ValueError):
        return b""
