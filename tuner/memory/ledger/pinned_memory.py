"""Terms of pinned host memory, which PyTorch hands out in powers of two.

Source: torch ``ATen/core/CachingHostAllocator.h``.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from tuner.memory.ledger.stated_terms import Size, stated
from tuner.memory.ledger.terms import Item, Term

#: Times the tensor: the next power of two.
MOST = 2


def pinned(item: Item, name: str, size: Size, numbers: Mapping[str, float], *, most: int = MOST) -> Term:
    """A term of the host, up to ``most`` times as large as its tensors."""
    exact = stated(item, name, size, numbers)
    return replace(exact, low_bytes=exact.bytes, high_bytes=most * exact.bytes)
