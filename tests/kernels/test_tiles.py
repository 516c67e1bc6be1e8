"""How the work is cut: nothing left out, nothing larger than it may be."""

import subprocess
import sys

import pytest

from tuner.kernels import tiles
from tuner.kernels.tiles import Tile

TILE = Tile(rows=128, columns=256, depth=32, stages=8, warps=4, group=16, programs=132)


@pytest.mark.parametrize("rows", [1, 127, 129, 4096, 16384, 100_000])
@pytest.mark.parametrize("vocabulary", [1, 256, 257, 1000, 50257, 151936, 152064, 262144])
def test_splits_cover_the_vocabulary_and_none_is_empty(rows: int, vocabulary: int) -> None:
    split = tiles.choose_split(TILE, rows, vocabulary)
    column_tiles = -(-vocabulary // TILE.columns)
    assert (split.count - 1) * split.tiles < column_tiles <= split.count * split.tiles
    assert split.count <= tiles.MAX_SPLITS


@pytest.mark.parametrize(
    ("rows", "vocabulary", "busy"),
    [
        (16384, 152064, 1.0),
        (16384, 128256, 0.98),
        (16384, 151936, 0.98),
        (4096, 152064, 0.95),
        (128, 152064, 0.8),
    ],
)
def test_splits_keep_the_device_busy(rows: int, vocabulary: int, busy: float) -> None:
    split = tiles.choose_split(TILE, rows, vocabulary)
    row_tiles, column_tiles = -(-rows // TILE.rows), -(-vocabulary // TILE.columns)
    steps = -(-row_tiles * split.count // TILE.programs) * split.tiles
    assert row_tiles * column_tiles / TILE.programs / steps >= busy


def test_the_package_is_imported_without_torch() -> None:
    code = "import sys, tuner.kernels; assert not {'torch', 'triton'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.sampled(3)
def test_names_are_found_whatever_was_imported_first() -> None:
    code = (
        "import tuner.kernels.head, tuner.kernels.entropy, tuner.kernels as kernels;"
        "assert callable(kernels.linear_cross_entropy) and callable(kernels.log_prob_and_entropy);"
        "assert not hasattr(kernels, 'other')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
