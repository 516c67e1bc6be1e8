"""What PyTorch's allocator says when it runs out of memory."""

import re

from tuner.units import GIB, KIB, MIB

_UNITS = {"bytes": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_AMOUNT = r"(?P<number>\d+(?:\.\d+)?) (?P<unit>bytes|KiB|MiB|GiB)"
_FIGURES = {
    "failed_request_bytes": rf"Tried to allocate {_AMOUNT}",
    "failed_free_bytes": rf"of which {_AMOUNT} is free",
    "failed_allocated_bytes": rf"{_AMOUNT} is allocated by PyTorch",
    "failed_unallocated_bytes": rf"{_AMOUNT} is reserved by PyTorch but unallocated",
}


def told_by_allocator(message: str) -> dict[str, int]:
    """The figures of its message: what was asked for, free, allocated, and reserved but unallocated.

    The last is what fragments hold back: a prediction of allocated bytes does not count it.

    Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``malloc``).
    """
    found = {name: re.search(pattern, message) for name, pattern in _FIGURES.items()}
    return {
        name: round(float(match["number"]) * _UNITS[match["unit"]])
        for name, match in found.items()
        if match is not None
    }
