"""Batches that vLLM generated beside the simulation and its prices."""

import json
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tuner.timing import assumptions
from tuner.timing.generation.simulation import simulate
from tuner.timing.spreads import ENDS

DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS / "validation" / "data" / "vllm-0.24-generation-h100.json"
BATCHES = json.loads(DATA.read_text(encoding="utf-8"))["generated"]


def _name(batch: dict[str, Any]) -> str:
    """One batch of the file: others may have its model and its limit, but not its cache too."""
    return f"{batch['model']}, {batch['limit']} at once, {batch['cache_blocks']} blocks"


def _with_all_blocks() -> list[list[dict[str, Any]]]:
    """The batches of each model from which no block of the cache was held back."""
    most = {
        batch["model"]: max(each["cache_blocks"] for each in BATCHES if each["model"] == batch["model"])
        for batch in BATCHES
    }
    return [
        [batch for batch in BATCHES if (batch["model"], batch["cache_blocks"]) == start]
        for start in most.items()
    ]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What makes the table of these batches."""
    monkeypatch.syspath_prepend(DOCS / "_ext")
    return import_module("engine_batches")


@pytest.mark.parametrize("batch", BATCHES, ids=_name)
def test_the_engine_took_what_a_fast_and_a_slow_host_enclose(batch: dict[str, Any], page: ModuleType) -> None:
    prices = page.prices_of(batch)
    assert prices.step == assumptions.ENGINE_STEP_S
    fast, slow = (page.seconds(batch, end) for end in page.ends(prices))
    assert fast < min(batch["seconds"]) <= max(batch["seconds"]) < slow


def test_each_more_sequence_of_a_step_took_what_the_host_is_said_to_take(page: ModuleType) -> None:
    """Between two limits, mean seconds of a step differ by the sequences of a step and little else."""
    low, high = ENDS["ENGINE_SEQUENCE_S"]
    more_each = []
    for batches in _with_all_blocks():
        points = sorted(
            (page.sequences_a_step(batch), min(batch["seconds"]) / simulate(page.load_of(batch)).steps)
            for batch in batches
        )
        for (fewer, first), (more, second) in pairwise(points):
            more_each.append((second - first) / (more - fewer))
            assert low < more_each[-1] <= high
    assert [round(1e6 * seconds) for seconds in sorted(more_each)] == [37, 45]  # as the page says


def test_the_host_that_one_batch_shows_predicts_the_others(page: ModuleType) -> None:
    """A factor of one batch is what a profile keeps of a machine: the others were not looked at for it."""
    factors = {_name(batch): page.host_factor(batch) for batch in BATCHES}
    errors = {
        (of, _name(batch)): page.seconds_beside(batch, factor) / min(batch["seconds"]) - 1
        for batch in BATCHES
        for of, factor in factors.items()
    }
    for batch in BATCHES:
        assert errors.pop((_name(batch), _name(batch))) == pytest.approx(0, abs=1e-3)
    apart = sorted(100 * abs(error) for error in errors.values())
    assert [round(share) for share in apart] == [2, 2, 11, 11, 13, 13]  # as the page says
    untold = [page.seconds(batch, page.prices_of(batch)) / min(batch["seconds"]) for batch in BATCHES]
    assert max(untold) < 0.65  # without it


def test_every_token_of_a_batch_is_simulated(page: ModuleType) -> None:
    for batch in BATCHES:
        assert simulate(page.load_of(batch)).tokens == pytest.approx(sum(batch["responses"]), rel=1e-6)
