"""Keeps what is found in thousands of inputs small: packed, out of memory, and unpacked one at a time."""

import zlib
from collections.abc import Iterable, Iterator
from functools import cache

import msgspec

from tuner.review.checked import Checked
from tuner.review.review import Inputs
from tuner.review.spool import Spool

_LEVEL = 1  # of zlib: a third of the size, and higher ones take more time for hardly less

Packed = bytes | Checked
"""A result as :class:`Kept` takes it, and as one process hands it to another."""


class Kept:
    """What is found in each of many inputs, in their order, whatever the order in which they were judged.

    It is read one input at a time, and as often as somebody asks.

    Args:
        count: how many inputs there are.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._spool = Spool(count)
        self._unpacked: dict[int, Checked] = {}

    def put(self, place: int, result: Packed) -> None:
        """Keep what is found in the input at a place, once for each."""
        if isinstance(result, bytes):
            self._spool.put(place, result)
        else:
            self._unpacked[place] = result

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> Checked:
        if place in self._unpacked:
            return self._unpacked[place]
        return _decoder().decode(zlib.decompress(self._spool.get(place)))

    def __iter__(self) -> Iterator[Checked]:
        return map(self.__getitem__, range(self._count))


def kept_like(inputs: Inputs, results: Iterable[Checked]) -> Inputs:
    """Other results of the same inputs: out of memory where these are.

    Args:
        inputs: what was found in each.
        results: what stands in its place, in the same order.
    """
    if not isinstance(inputs, Kept):
        return tuple(results)
    keeping = Kept(len(inputs))
    for place, result in enumerate(results):
        keeping.put(place, packed(result))
    return keeping


def packed(result: Checked) -> Packed:
    """A result as bytes; as it is where these would not give the same again.

    That is so of a name that is no UTF-8 and of a number with more than 64 bits.
    """
    try:
        data = _encoder().encode(result)
        if _decoder().decode(data) == result:
            return zlib.compress(data, _LEVEL)
    except (UnicodeEncodeError, OverflowError, msgspec.ValidationError):
        pass
    return result


@cache
def _encoder() -> msgspec.msgpack.Encoder:
    return msgspec.msgpack.Encoder()


@cache
def _decoder() -> msgspec.msgpack.Decoder[Checked]:
    return msgspec.msgpack.Decoder(Checked)
