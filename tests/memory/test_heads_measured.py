"""Peaks of the output head that were measured on an H200, against the formulas."""

import json
from collections.abc import Iterator

import pytest

from tests.memory.measured import RECORDED
from tuner.units import MIB
from tuner.validate.head.settings import HeadShape, Way
from tuner.workload.head_names import COMPARED_HEADS

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
    expected = Way.of(WAYS[name], entropy=True).peak_bytes(shape, training=training)
    assert 0 <= measured - expected <= 44 * shape.tokens + 2 * MIB
