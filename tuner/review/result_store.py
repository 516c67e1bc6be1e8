"""Keeps what is found in thousands of inputs small: packed, out of memory, and unpacked one at a time."""

import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, Generic, TypeVar

from msgspec import Struct, ValidationError
from msgspec.msgpack import Decoder, Encoder

from tuner.review.many import FEW
from tuner.review.spool import Spool

_LEVEL = 1  # of zlib: a third of the size, and higher ones take more time for hardly less

Result = TypeVar("Result", bound=Struct)


class ResultStore(Generic[Result]):
    """What is found in each of many inputs, in their order, whatever the order in which they were judged.

    It is read one input at a time, and as often as somebody asks. Of few inputs nothing is packed.

    Args:
        kind: what is found in each.
        count: how many inputs there are.
    """

    def __init__(self, kind: type[Result], count: int) -> None:
        self._kind = kind
        self._count = count
        self._spool = Spool(count)
        self._unpacked: dict[int, Result] = {}

    @classmethod
    def of(cls, kind: type[Result], results: Iterable[Result], count: int) -> "ResultStore[Result]":
        """Results that come in the order of their inputs."""
        store = cls(kind, count)
        for place, result in enumerate(results):
            store.put(place, result)
        return store

    def put(self, place: int, result: Result | bytes) -> None:
        """Keep what is found in the input at a place, once for each; it may be packed already."""
        if not isinstance(result, bytes) and self._count >= FEW:
            result = packed(result)
        if isinstance(result, bytes):
            self._spool.put(place, result)
        else:
            self._unpacked[place] = result

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int, /) -> Result:
        if place in self._unpacked:
            return self._unpacked[place]
        result: Result = _decoder(self._kind).decode(zlib.decompress(self._spool.get(place)))
        return result

    def __iter__(self) -> Iterator[Result]:
        return map(self.__getitem__, range(self._count))


def packed(result: Result) -> Result | bytes:
    """A result as bytes; as it is where these would not give the same again.

    That is so of a name that is no UTF-8 and of a number with more than 64 bits.
    """
    try:
        data = _encoder().encode(result)
        if _decoder(type(result)).decode(data) == result:
            return zlib.compress(data, _LEVEL)
    except (UnicodeEncodeError, OverflowError, ValidationError):
        pass
    return result


@cache
def _encoder() -> Encoder:
    return Encoder()


@cache
def _decoder(kind: type[Struct]) -> Decoder[Any]:
    return Decoder(kind)
