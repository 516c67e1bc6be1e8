"""How the backward pass cuts the vocabulary, and where the gradient of a slice's logits is kept.

R: rows worked on. V: vocabulary entries. H: hidden size. N: entries of a slice.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from tuner.kernels import tiles
from tuner.kernels.tiles import Tile
from tuner.units import MIB

SLICE_BYTES = 304 * MIB  # of a slice in a buffer of its own
MULTIPLICATIONS_PER_BYTE = 80  # of 16-bit matrices while a byte is moved: about that of A100 to B200


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Entries of the vocabulary whose gradient of the logits exists at a time."""

    start: int
    width: int
    in_weight: bool  # it lies in that part of the weight's gradient which later slices write


def cut(tile: Tile, hidden_RH: Tensor, vocabulary: int, *, weight_wanted: bool) -> Iterator[Slice]:
    """Slices as wide as their room: each costs a pass over the sum of the hidden states' gradient.

    The gradient of the weight is written slice by slice, so what is left of it is free until then: ``N``
    entries need ``N H`` elements to write and ``N R`` for the gradient of their logits. Once that is
    less than ``SLICE_BYTES``, a buffer of these is used instead.
    """
    rows, hidden = hidden_RH.shape
    own = max(1, SLICE_BYTES // (hidden_RH.element_size() * rows * tile.columns)) * tile.columns
    start = 0
    while start < vocabulary:
        left = vocabulary - start
        free = _free_entries(left, hidden_RH, tile) if weight_wanted else 0
        width = left if left <= own else _cheapest(max(own, free), tile, rows, hidden)
        yield Slice(start=start, width=width, in_weight=width > own)
        start += width


def uniform(vocabulary: int, width: int) -> Iterator[Slice]:
    """Slices of a width that the caller chose, in a buffer of their own."""
    for start in range(0, vocabulary, width):
        yield Slice(start=start, width=min(width, vocabulary - start), in_weight=False)


def room_in(d_weight_VH: Tensor, rows: int, stride: int) -> Tensor:
    """The last ``rows x stride`` elements that begin at a multiple of 16 bytes."""
    size = rows * stride
    per_line = tiles.padded(1, d_weight_VH.dtype)
    start = (d_weight_VH.numel() - size) // per_line * per_line
    return d_weight_VH.view(-1)[start : start + size].view(rows, stride)


def _free_entries(left: int, hidden_RH: Tensor, tile: Tile) -> int:
    """Entries that the unwritten part of the weight's gradient has room for, in whole tiles."""
    rows, hidden = hidden_RH.shape
    alignment = tiles.padded(1, hidden_RH.dtype)
    return max(0, left * hidden - alignment) // (rows + hidden) // tile.columns * tile.columns


def _cheapest(most: int, tile: Tile, rows: int, hidden: int) -> int:
    """Between ``most`` entries and half of them, the width whose entries take the least time each.

    Waves of tiles that are not full leave programs idle, in the recomputed logits and in the gradient of
    the weight, whose tiles are as large; that of the hidden states has the same tiles for every width. In
    multiplications of a tile.
    """
    row_tiles, depth_tiles = -(-rows // tile.rows), -(-hidden // tile.rows)
    moved = 2 * torch.float32.itemsize * rows * hidden * MULTIPLICATIONS_PER_BYTE
    sum_passed = moved / (tile.rows * tile.columns * tile.programs)

    def cost(columns: int) -> float:
        """Cost of a slice; that of a wave grows with what a tile sums over."""
        logits = _waves(row_tiles * columns, tile) * hidden
        return (logits + _waves(depth_tiles * columns, tile) * rows + sum_passed) / columns

    widest = most // tile.columns
    return tile.columns * min(range(widest, widest // 2, -1), key=cost)


def _waves(count: int, tile: Tile) -> int:
    return -(-count // tile.programs)
