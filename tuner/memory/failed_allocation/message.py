"""What PyTorch's allocator says when it runs out of memory: the sizes in its message, of any release.

Since 2.1: ``Tried to allocate 13.91 GiB. GPU 0 has a total capacity of 79.11 GiB of which 9.04 GiB is free.
[...] 60.10 GiB is allocated by PyTorch, and 8.38 GiB is reserved by PyTorch but unallocated.`` Before:
``Tried to allocate 13.91 GiB (GPU 0; 79.11 GiB total capacity; 60.10 GiB already allocated; 9.04 GiB free;
68.48 GiB reserved in total by PyTorch)``.

Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``malloc``).
"""

import re
from fractions import Fraction

from msgspec import Struct

from tuner.units import GIB, KIB, MIB

_UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "bytes": 1}
_SIZE = r"(\d+(?:\.\d+)?) ?(GiB|MiB|KiB|bytes)"
# Compiled when a message is read.
_REQUESTED = rf"Tried to allocate {_SIZE}"
_FREE = rf"{_SIZE} (?:is )?free"
_ALLOCATED = rf"{_SIZE} (?:is allocated by PyTorch|already allocated)"
_UNUSED = rf"{_SIZE} is reserved by PyTorch but unallocated"
_RESERVED = rf"{_SIZE} reserved in total"


class Size(Struct, frozen=True, kw_only=True):
    """A size as a message writes it, rounded to its decimals."""

    text: str  # as written: "13.91 GiB"
    bytes: Fraction
    half_step: Fraction  # half of the last decimal, by which the rounding may be off


class OutOfMemory(Struct, frozen=True, kw_only=True):
    """The sizes of a message; None where it does not say."""

    requested: Size | None
    free_bytes: int | None  # on the card
    allocated_bytes: int | None  # in tensors
    unused_bytes: int | None  # reserved by PyTorch, in no tensor: what fragments hold back


def read_message(text: str) -> OutOfMemory:
    """The sizes in a text that holds an allocator's message, however its lines are broken."""
    text = " ".join(text.split())
    allocated, unused, reserved = (_bytes(pattern, text) for pattern in (_ALLOCATED, _UNUSED, _RESERVED))
    if unused is None and reserved is not None and allocated is not None:
        unused = max(0, reserved - allocated)
    return OutOfMemory(
        requested=_size(re.search(_REQUESTED, text)),
        free_bytes=_bytes(_FREE, text),
        allocated_bytes=allocated,
        unused_bytes=unused,
    )


def read_size(text: str) -> Size | None:
    """A text that is nothing but a size, such as ``18.54 GiB``; None where it is something else."""
    return _size(re.fullmatch(rf"\s*{_SIZE}\s*", text))


def _size(match: re.Match[str] | None) -> Size | None:
    if match is None:
        return None
    number, unit = match.groups()
    decimals = len(number.partition(".")[2])
    return Size(
        text=f"{number} {unit}",
        bytes=Fraction(number) * _UNITS[unit],
        half_step=Fraction(_UNITS[unit], 2 * 10**decimals),
    )


def _bytes(pattern: str, text: str) -> int | None:
    size = _size(re.search(pattern, text))
    return None if size is None else round(size.bytes)
