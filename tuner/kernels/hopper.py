"""The pipeline of the Hopper kernels: one warp loads, two groups of four warps multiply what it has loaded.

T: rows (tokens). V: vocabulary entries. H: hidden size.

Written in Gluon, Triton's lower level, because there the loads of the next tile go on while a tile's
results are worked on. A tile is ROWS x COLUMNS logits; the upper half of its rows belongs to the first
group, the lower half to the second, and both read the same weights. The loads go through a ring of STAGES
slots in shared memory: ``ready`` counts the bytes that have come, ``empty`` the groups that have read.
The float32 reference is ``hidden_TH @ weight_VH.T`` in :mod:`tuner.kernels.reference`. There is no
interpreter for Gluon: :mod:`tuner.kernels.product` has the same tile for every other device.
"""

from typing import Any

import torch
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from tuner.kernels.tiles import Tile
from tuner.units import KIB

# Registers of a thread: what the compiler may plan with, of the groups, and of the warp that only loads.
PLANNED_REGISTERS = 168
GROUP_REGISTERS = 240
LOADING_REGISTERS = 24
BLOCK_BYTES = 227 * KIB  # of shared memory that one block may have
BARRIER_BYTES = KIB  # more than the barriers and the alignment of the slots take
GLUON_DTYPES = {torch.bfloat16: gl.bfloat16, torch.float16: gl.float16}


def descriptor(matrix: Tensor, block: tuple[int, int]) -> Any:
    """What the copy engine needs to know of a matrix whose blocks it copies."""
    layout = gl.NVMMASharedLayout.get_default_for(list(block), GLUON_DTYPES[matrix.dtype])
    return TensorDescriptor(matrix, list(matrix.shape), list(matrix.stride()), list(block), layout)


def operands(hidden_TH: Tensor, weight_VH: Tensor, tile: Tile) -> tuple[Any, Any]:
    """Both, in the blocks that :func:`load_tiles` copies."""
    half = (tile.rows // 2, tile.depth)
    return descriptor(hidden_TH, half), descriptor(weight_VH, (tile.columns, tile.depth))


def slots(tile: Tile, *, storing: bool) -> int:
    """Slots of the ring: those of the tile, or fewer where blocks on their way out take their room."""
    room = BLOCK_BYTES - BARRIER_BYTES - (2 * tile.rows * tile.columns if storing else 0)
    return min(tile.stages, room // (2 * (tile.rows + tile.columns) * tile.depth))


@gluon.constexpr_function
def logits_layout(columns):
    """How a group's four warps hold half a tile of logits: as their products leave them."""
    return gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, columns, 16])


@gluon.jit
def item_position(item, row_tiles, S, GROUP: gl.constexpr):
    """Row tile and split of an item: GROUP row tiles take their turn with each split."""
    in_group = GROUP * S
    first = item // in_group * GROUP
    height = gl.minimum(row_tiles - first, GROUP)
    return first + item % in_group % height, item % in_group // height


@gluon.jit
def new_ring(
    hidden, weight, ROWS: gl.constexpr, COLUMNS: gl.constexpr, DEPTH: gl.constexpr, STAGES: gl.constexpr
):
    """Slots for the two halves of the rows and for the columns, and their barriers."""
    upper = gl.allocate_shared_memory(hidden.dtype, [STAGES, ROWS // 2, DEPTH], hidden.layout)
    lower = gl.allocate_shared_memory(hidden.dtype, [STAGES, ROWS // 2, DEPTH], hidden.layout)
    columns = gl.allocate_shared_memory(weight.dtype, [STAGES, COLUMNS, DEPTH], weight.layout)
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(STAGES):
        mbarrier.init(empty.index(slot), count=2)
        mbarrier.init(ready.index(slot), count=1)
    return upper, lower, columns, empty, ready


@gluon.jit
def load_tiles(
    hidden,
    weight,
    ring,
    sizes,  # steps of H, row tiles, splits, column tiles of a split, column tiles, first entry
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    DEPTH: gl.constexpr,
    STAGES: gl.constexpr,
    GROUP: gl.constexpr,
):
    """Load every slot that this program's groups will read, in their order."""
    upper, lower, columns, empty, ready = ring
    steps, row_tiles, S, split_tiles, column_tiles, start = sizes
    count = 0
    for item in range(gl.program_id(0), row_tiles * S, gl.num_programs(0)):
        row_tile, split = item_position(item, row_tiles, S, GROUP)
        row = row_tile * ROWS
        last = gl.minimum((split + 1) * split_tiles, column_tiles)
        for column_tile in range(split * split_tiles, last):
            column = start + column_tile * COLUMNS
            for step in range(steps):
                slot = count % STAGES
                mbarrier.wait(empty.index(slot), (count // STAGES & 1) ^ 1)
                come = ready.index(slot)
                mbarrier.expect(come, (ROWS + COLUMNS) * DEPTH * 2)
                depth = step * DEPTH
                tma.async_copy_global_to_shared(hidden, [row, depth], come, upper.index(slot))
                tma.async_copy_global_to_shared(hidden, [row + ROWS // 2, depth], come, lower.index(slot))
                tma.async_copy_global_to_shared(weight, [column, depth], come, columns.index(slot))
                count += 1


@gluon.jit
def multiply(
    half,  # upper or lower
    columns,
    empty,
    ready,
    count,
    steps,
    ROWS: gl.constexpr,
    COLUMNS: gl.constexpr,
    STAGES: gl.constexpr,
    LAYOUT: gl.constexpr,
):
    """float32 logits of half a tile, and the number of slots read so far."""
    logits = gl.zeros([ROWS // 2, COLUMNS], gl.float32, layout=LAYOUT)
    for step in range(steps):
        slot = count % STAGES
        mbarrier.wait(ready.index(slot), count // STAGES & 1)
        logits = warpgroup_mma(half.index(slot), columns.index(slot).permute((1, 0)), logits, is_async=True)
        # The product before this one is done: its slot can be loaded again.
        logits = warpgroup_mma_wait(num_outstanding=1, deps=(logits,))
        mbarrier.arrive(empty.index((count + STAGES - 1) % STAGES), count=1, pred=step > 0)
        count += 1
    logits = warpgroup_mma_wait(num_outstanding=0, deps=(logits,))
    mbarrier.arrive(empty.index((count + STAGES - 1) % STAGES), count=1)
    return logits, count
