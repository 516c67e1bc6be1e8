"""How the product of hidden states and weights is cut, and which kernels compute it.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

from tuner.units import KIB

READ_BLOCK = 4096  # logits that a program reads at a time
MAX_SPLITS = 512  # of the vocabulary: what one program of the merging kernel holds


class Path(Enum):
    """What computes: names for tests and benchmarks, chosen by :func:`choose_path`."""

    HOPPER = "hopper"  # Gluon: a warp that loads through the copy engine, two groups that multiply
    PORTABLE = "portable"  # Triton
    REFERENCE = "reference"  # torch's operators in float32


_forced: Path | None = None  # of the process, not of a context: autograd's threads have their own


@dataclass(frozen=True, kw_only=True)
class Tile:
    """What one program computes at a time: ``rows`` x ``columns`` logits, ``depth`` of H per step."""

    rows: int
    columns: int
    depth: int
    stages: int  # of loads under way
    warps: int  # on Hopper, of each group
    group: int  # row tiles that use a column tile while it is in the cache
    programs: int  # on the whole device

    @classmethod
    def of(cls, sizes: Sequence[int], programs: int) -> "Tile":
        """From its numbers in the order of the fields, as the table of measurements has them."""
        rows, columns, depth, stages, warps, group = sizes
        return cls(
            rows=rows,
            columns=columns,
            depth=depth,
            stages=stages,
            warps=warps,
            group=group,
            programs=programs,
        )


class TileWork(Enum):
    """What a pass over the product writes: which tile is fastest depends on it."""

    STATISTICS = "statistics"  # of logits that are not kept
    SAVING = "statistics and logits"
    GRADIENT = "gradient of the logits"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The kernels that a pass takes, and what one program computes at a time."""

    path: Path
    tile: Tile


@dataclass(frozen=True, kw_only=True)
class Split:
    """How the column tiles are shared out."""

    count: int
    tiles: int  # column tiles of each but the last


def _has_descriptors(matrix: Tensor) -> bool:
    """Whether the copy engine takes it: rows that begin at multiples of 16 bytes."""
    row_bytes = matrix.stride(0) * matrix.element_size()
    return matrix.data_ptr() % 16 == 0 and row_bytes % 16 == 0


def has_triton(tensor: Tensor) -> bool:
    """Whether Triton's kernels run where the tensor is: on a GPU, or interpreted."""
    if find_spec("triton") is None:
        return False
    from tuner.kernels.statistics import INTERPRETED

    return tensor.is_cuda != INTERPRETED


@contextmanager
def only(path: Path) -> Iterator[None]:
    """Within it every pass takes this path: to test and to measure one where another is chosen."""
    global _forced
    before, _forced = _forced, path
    try:
        yield
    finally:
        _forced = before


@cache
def _has_gluon() -> bool:
    """Whether Triton's lower level is the one that the Hopper kernels are written in."""
    from triton import __version__

    major, minor, *_ = __version__.split(".")
    return (int(major), int(minor)) >= (3, 6)


def possible_paths(hidden_TH: Tensor, weight_VH: Tensor) -> tuple[Path, ...]:
    """The kernels that can compute with these matrices, whose last dimension is contiguous.

    Hopper's for bfloat16 and float16 there, with Triton 3.6 or newer. float32 has no tensor cores at
    full precision and gains nothing from them. CPU tensors take Triton's interpreter where it is on.
    """
    if _forced is not None:
        return (_forced,)
    if not has_triton(hidden_TH):
        return (Path.REFERENCE,)
    if hidden_TH.device.type == "cpu":
        return (Path.PORTABLE,)
    hopper = torch.version.hip is None and torch.cuda.get_device_capability(hidden_TH.device)[0] == 9
    half = hidden_TH.element_size() == 2
    if hopper and half and _has_gluon() and _has_descriptors(hidden_TH) and _has_descriptors(weight_VH):
        return (Path.HOPPER, Path.PORTABLE)
    return (Path.PORTABLE,)


def choose_path(hidden_TH: Tensor, weight_VH: Tensor) -> Path:
    """The first of the kernels that can compute with these matrices."""
    return possible_paths(hidden_TH, weight_VH)[0]


@cache
def _processors(device: torch.device) -> int:
    if device.type == "cpu":
        return 3  # interpreted: fewer than tiles, so that programs take several
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@cache
def _shared_memory_bytes(device: torch.device) -> int:
    """What one block may have; 64 KiB on AMD."""
    properties = torch.cuda.get_device_properties(device)
    return int(getattr(properties, "shared_memory_per_block_optin", properties.shared_memory_per_block))


def default_tile(path: Path, hidden_TH: Tensor) -> Tile:
    """The tile where nothing is measured: for a device and a dtype."""
    device = hidden_TH.device
    processors = _processors(device)
    if device.type == "cpu":  # interpreted: small, so that small inputs have many tiles
        return Tile(rows=16, columns=32, depth=16, stages=1, warps=1, group=2, programs=processors)
    if path is Path.HOPPER:  # as the H200 was measured; slower memory wants whole cache lines
        return Tile(rows=128, columns=256, depth=32, stages=8, warps=4, group=16, programs=processors)
    if hidden_TH.element_size() == 4:
        return Tile(rows=64, columns=64, depth=32, stages=2, warps=4, group=16, programs=2 * processors)
    # Of H100 and B200. Less shared memory comes with fewer registers to spare for the statistics.
    if _shared_memory_bytes(device) >= 200 * KIB:
        return Tile(rows=128, columns=256, depth=64, stages=3, warps=8, group=16, programs=processors)
    return Tile(rows=128, columns=128, depth=32, stages=3, warps=8, group=16, programs=processors)


def choose_split(tile: Tile, rows: int, vocabulary: int) -> Split:
    """The fewest splits with which rows times splits fill the device in the least time."""
    row_tiles = -(-rows // tile.rows)
    column_tiles = -(-vocabulary // tile.columns)
    most = min(column_tiles, MAX_SPLITS, max(48, -(-2 * tile.programs // row_tiles)))
    best = Split(count=1, tiles=column_tiles)
    cheapest = -(-row_tiles // tile.programs) * column_tiles
    for wanted in range(2, most + 1):
        tiles = -(-column_tiles // wanted)
        count = -(-column_tiles // tiles)
        cost = -(-row_tiles * count // tile.programs) * tiles
        if cost < cheapest:
            best, cheapest = Split(count=count, tiles=tiles), cost
    return best


def choose_reading_split(device: torch.device, rows: int, vocabulary: int) -> Split:
    """As :func:`choose_split` for logits that are read: eight programs a processor, or one a row."""
    blocks = -(-vocabulary // READ_BLOCK)
    wanted = min(blocks, MAX_SPLITS, -(-8 * _processors(device) // rows))
    tiles = -(-blocks // wanted)
    return Split(count=-(-blocks // tiles), tiles=tiles)


def padded(columns: int, dtype: torch.dtype) -> int:
    """Columns with which each row of a contiguous matrix begins at a multiple of 16 bytes."""
    per_line = 16 // dtype.itemsize
    return -(-columns // per_line) * per_line
