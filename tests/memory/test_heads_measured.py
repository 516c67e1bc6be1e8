"""Peaks of the output head that were measured on an H200, against the formulas."""

import json
from collections.abc import Iterator

import pytest

from tests.memory.measured import RECORDED
from tuner.kernels import slices
from tuner.memory.head.fused import TUNER_SLICE_BYTES
from tuner.units import MIB
from tuner.validate.head.settings import HeadShape, HeadUse
from tuner.workload import HeadKind, OutputHead
from tuner.workload.head import COMPARED_HEADS

WAYS = COMPARED_HEADS


def peaks() -> Iterator[tuple[str, HeadShape, bool, float]]:
    """Head, shape, whether with a backward pass, bytes."""
    found = json.loads((RECORDED / "output-head-h200.json").read_text())
    for shape in found["shapes"]:
        size = HeadShape(tokens=shape["tokens"], hidden=shape["hidden"], vocab=shape["vocabulary"])
        for head in shape["heads"]:
            if head["name"] in WAYS and head["status"] == "right":
                for training, which in ((False, "forward"), (True, "both")):
                    yield head["name"], size, training, head["peak_bytes"][which]


def with_both_passes(report: str, name: str) -> Iterator[tuple[HeadShape, float]]:
    """Shape, and bytes of both passes of a head."""
    for shape in json.loads((RECORDED / report).read_text())["shapes"]:
        size = HeadShape(tokens=shape["tokens"], hidden=shape["hidden"], vocab=shape["vocabulary"])
        (head,) = (head for head in shape["heads"] if head["name"] == name)
        yield size, head["peak_bytes"]["both"]


@pytest.mark.parametrize(
    "report",
    [f"output-head-{run}.json" for run in ("h100", "h100-more", "h200", "h200-more")],
)
def test_our_head_takes_no_more_than_is_claimed(report: str) -> None:
    """A slice may be narrower than its room, where that fills the waves of tiles.

    Where the first slices lie in the gradient of the weight, the buffer holds what is left after them alone.
    """
    way = HeadUse.of(OutputHead(kind=HeadKind.FUSED_TUNER), entropy=True)
    shapes = list(with_both_passes(report, "recompute"))
    assert shapes
    for shape, measured in shapes:
        free = shape.vocab * shape.hidden // (shape.tokens + shape.hidden)
        begins_in_weight = 2 * free * shape.tokens > TUNER_SLICE_BYTES
        most = TUNER_SLICE_BYTES if begins_in_weight else TUNER_SLICE_BYTES / 2
        assert 0 <= way.peak_bytes(shape, training=True) - measured <= most


@pytest.mark.parametrize(
    "report",
    [f"output-head-{run}.json" for run in ("h100", "h100-more", "h200", "h200-more")],
)
def test_the_triton_head_of_verl_takes_what_was_measured(report: str) -> None:
    """Whole slices alone, and a narrower last one; beyond the tensors are five numbers of each row."""
    way = HeadUse.of(OutputHead(kind=HeadKind.FUSED_TRITON), entropy=True)
    shapes = list(with_both_passes(report, "verl Triton"))
    assert shapes
    for shape, measured in shapes:
        assert measured - way.peak_bytes(shape, training=True) == 5 * 4 * shape.tokens


def test_a_slice_is_as_large_as_the_kernels_make_it() -> None:
    assert TUNER_SLICE_BYTES == slices.SLICE_BYTES


def test_the_ways_with_logits_are_all_there() -> None:
    names = {name for name, *_ in peaks()}
    assert names >= {
        "eager",
        "eager, checkpointed",
        "eager, chunked",
        "eager, chunked, checkpointed",
        "compiled",
    }


@pytest.mark.parametrize(("name", "shape", "training", "measured"), list(peaks()))
def test_a_head_takes_what_was_measured(name: str, shape: HeadShape, training: bool, measured: float) -> None:
    """Beyond the large tensors are numbers of each row, and what PyTorch does not split off.

    A block that is too large by less than 1 MiB is given out whole, for one or two of the large tensors.
    """
    expected = HeadUse.of(WAYS[name], entropy=True).peak_bytes(shape, training=training)
    assert 0 <= measured - expected <= 44 * shape.tokens + 2 * MIB
