"""How the backward pass cuts the vocabulary: nothing left out, nothing written over."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tuner.kernels import slices, tiles
from tuner.kernels.slices import Slice
from tuner.kernels.tiles import Tile

TILE = Tile(rows=128, columns=256, depth=32, stages=8, warps=4, group=16, programs=132)


def cut(rows: int, hidden: int, vocabulary: int, *, weight_wanted: bool = True) -> list[Slice]:
    hidden_states = torch.empty(rows, hidden, dtype=torch.bfloat16, device="meta")
    return list(slices.cut(TILE, hidden_states, vocabulary, weight_wanted=weight_wanted))


@given(
    rows=st.one_of(st.integers(1, 200), st.integers(1, 200_000)),
    hidden=st.integers(1, 8192),
    vocabulary=st.integers(1, 300_000),
    weight_wanted=st.booleans(),
)
def test_slices_cover_the_vocabulary_in_the_room_they_have(
    rows: int, hidden: int, vocabulary: int, weight_wanted: bool
) -> None:
    parts = cut(rows, hidden, vocabulary, weight_wanted=weight_wanted)
    starts = [0, *(part.start + part.width for part in parts)]
    assert starts == [part.start for part in parts] + [vocabulary]
    assert all(part.width % TILE.columns == 0 for part in parts[:-1])
    d_weight = torch.empty(vocabulary, hidden, dtype=torch.bfloat16, device="meta")
    for part in parts:
        if not part.in_weight:
            assert 2 * rows * part.width <= slices.SLICE_BYTES or part.width <= TILE.columns
            continue
        assert weight_wanted
        room = slices.room_in(d_weight, rows, tiles.padded(part.width, torch.bfloat16))
        assert room.storage_offset() >= (part.start + part.width) * hidden
        assert room.storage_offset() * 2 % 16 == 0
        assert room.storage_offset() + room.numel() <= d_weight.numel()


def test_the_unwritten_gradient_of_the_weight_saves_passes() -> None:
    with_room, without = cut(16384, 3584, 152064), cut(16384, 3584, 152064, weight_wanted=False)
    assert (len(with_room), len(without)) == (13, 18)
    assert max(part.width for part in with_room if not part.in_weight) == 33 * 256


@pytest.mark.parametrize(("rows", "hidden", "vocabulary"), [(16384, 3584, 152064), (16384, 896, 151936)])
def test_few_programs_are_idle(rows: int, hidden: int, vocabulary: int) -> None:
    busy, waves = 0, 0
    for part in cut(rows, hidden, vocabulary):
        columns = -(-part.width // TILE.columns)
        for tiles_down, summed in ((rows // TILE.rows, hidden), (-(-hidden // TILE.rows), rows)):
            busy += tiles_down * columns * summed
            waves += -(-tiles_down * columns // TILE.programs) * summed
    assert busy / TILE.programs / waves >= 0.97
