"""What PyTorch's allocator says when it runs out of memory: the sizes in its message, of any release.

Since 2.1: ``Tried to allocate 13.91 GiB. GPU 0 has a total capacity of 79.11 GiB of which 9.04 GiB is free.
Process 7 has 70.07 GiB memory in use. Of the allocated memory 60.10 GiB is allocated by PyTorch, and 8.38 GiB
is reserved by PyTorch but unallocated.`` Before: ``Tried to allocate 13.91 GiB (GPU 0; 79.11 GiB total
capacity; 60.10 GiB already allocated; 9.04 GiB free; 68.48 GiB reserved in total by PyTorch)``.

Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``malloc``, ``reportProcessMemoryInfo``).
"""

import re
from fractions import Fraction

from msgspec import Struct

from tuner.units import GIB, KIB, MIB

_UNITS = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "bytes": 1}
SIZE = r"(\d{1,15}(?:\.\d{1,9})?) ?(GiB|MiB|KiB|bytes)"
# Compiled when a message is read.
_REQUESTED = rf"Tried to allocate {SIZE}"
_CARD = r"\bGPU (\d{1,4})\b"
_TOTAL = rf"(?:total capac(?:i)?ty of {SIZE}|{SIZE} total capacity)"  # 2.1 wrote "capacty"
_FREE = rf"{SIZE} (?:is )?free"
_ALLOCATED = rf"{SIZE} (?:is allocated by PyTorch|already allocated)"
_PRIVATE = rf"{SIZE} allocated in private pools"
_UNUSED = rf"{SIZE} is reserved by PyTorch but unallocated"
_RESERVED = rf"{SIZE} reserved in total"
_OWN = rf"this process has {SIZE} memory in use"
_PROCESS = rf"Process (\d{{1,10}}) has {SIZE} memory in use"


class PrintedSize(Struct, frozen=True, kw_only=True):
    """A size as a message writes it, rounded to its decimals."""

    text: str  # as written: "13.91 GiB"
    bytes: Fraction
    half_step: Fraction  # half of the last decimal, by which the rounding may be off


class Process(Struct, frozen=True, kw_only=True):
    """A process that the message names, with all that it holds of the card."""

    number: int
    bytes: int


class AllocatorMessage(Struct, frozen=True, kw_only=True):
    """The sizes of a message; None where it does not say."""

    requested: PrintedSize | None
    card: int | None = None  # its number, among those that the process sees
    total_bytes: int | None = None  # of the card
    free_bytes: int | None = None  # on the card
    allocated_bytes: int | None = None  # in tensors
    private_bytes: int | None = None  # of these, in pools such as those of CUDA graphs
    unused_bytes: int | None = None  # reserved by PyTorch, in no tensor: what fragments hold back
    own_bytes: int | None = None  # all that the process holds, where the message knows which one it is
    processes: tuple[Process, ...] = ()  # those that it names by number, of which one may be its own


def read_message(text: str) -> AllocatorMessage:
    """The sizes in a text that holds an allocator's message, however its lines are broken."""
    text = " ".join(text.split())
    allocated, unused, reserved = (_bytes(pattern, text) for pattern in (_ALLOCATED, _UNUSED, _RESERVED))
    if unused is None and reserved is not None and allocated is not None:
        unused = max(0, reserved - allocated)
    card = re.search(_CARD, text)
    return AllocatorMessage(
        requested=_size(re.search(_REQUESTED, text)),
        card=None if card is None else int(card[1]),
        total_bytes=_bytes(_TOTAL, text),
        free_bytes=_bytes(_FREE, text),
        allocated_bytes=allocated,
        private_bytes=_bytes(_PRIVATE, text),
        unused_bytes=unused,
        own_bytes=_bytes(_OWN, text),
        processes=tuple(
            Process(number=int(number), bytes=round(Fraction(count) * _UNITS[unit]))
            for number, count, unit in re.findall(_PROCESS, text)
        ),
    )


def read_size(text: str) -> PrintedSize | None:
    """A text that is nothing but a size, such as ``18.54 GiB``; None where it is something else."""
    return _size(re.fullmatch(rf"\s*{SIZE}\s*", text))


def _size(match: re.Match[str] | None) -> PrintedSize | None:
    if match is None:
        return None
    number, unit = (group for group in match.groups() if group is not None)
    decimals = len(number.partition(".")[2])
    return PrintedSize(
        text=f"{number} {unit}",
        bytes=Fraction(number) * _UNITS[unit],
        half_step=Fraction(_UNITS[unit], 2 * 10**decimals),
    )


def _bytes(pattern: str, text: str) -> int | None:
    size = _size(re.search(pattern, text))
    return None if size is None else round(size.bytes)
