"""Batches that vLLM generated beside the simulation and its prices."""

import json
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tuner.timing import assumptions
from tuner.timing.generation.simulation import simulate
from tuner.timing.spreads import ENDS, ENGINE_ERROR, ENGINE_ERROR_OF_ONE_FACTOR, of_rate

pytestmark = pytest.mark.sampled(3)

Batch = dict[str, Any]

DOCS = Path(__file__).parents[2] / "docs"
FILES = ("vllm-0.24-generation-h100.json", "vllm-0.24-generation-h100-two-models.json")
RECORDED: dict[str, list[Batch]] = {
    file: json.loads((DOCS / "validation" / "data" / file).read_text(encoding="utf-8"))["generated"]
    for file in FILES
}
BATCHES = [batch for batches in RECORDED.values() for batch in batches]
TWO_MODELS = RECORDED[FILES[1]]


def _name(batch: Batch) -> str:
    return f"{batch['model']}, {batch['limit']} at once, {batch['cache_blocks']} blocks"


def _small(batches: list[Batch]) -> list[Batch]:
    """Those of the small model, whose steps the host decides about, from which no blocks were held back."""
    model = min((batch["model"] for batch in batches), key=lambda name: "1.5B" not in name)
    whole = max(batch["cache_blocks"] for batch in batches if batch["model"] == model)
    return [batch for batch in batches if (batch["model"], batch["cache_blocks"]) == (model, whole)]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What makes the table of these batches."""
    monkeypatch.syspath_prepend(DOCS / "_ext")
    return import_module("engine_batches")


@pytest.mark.parametrize("batch", BATCHES, ids=_name)
def test_the_engine_took_what_a_fast_and_a_slow_host_enclose(batch: Batch, page: ModuleType) -> None:
    """Where the GPU decides, its reading may be as slow as the constants allow, too."""
    prices = page.prices_of(batch)
    assert prices.step == assumptions.ENGINE_STEP_S
    fast, slow = (page.seconds(batch, end) for end in page.ends(prices))
    if batch["model"] == "Qwen/Qwen3-4B":
        slow *= of_rate("DECODE_MEMORY_SHARE").high
    assert fast < min(batch["seconds"]) <= max(batch["seconds"]) < slow


@pytest.mark.parametrize(("file", "said"), [(FILES[0], [37, 45]), (FILES[1], [70, 73])])  # as the page says
def test_each_more_sequence_of_a_step_took_what_the_host_is_said_to_take(
    file: str, said: list[int], page: ModuleType
) -> None:
    """Between two limits, mean seconds of a step differ by the sequences of a step and little else."""
    low, high = ENDS["ENGINE_SEQUENCE_S"]
    points = sorted(
        (page.sequences_a_step(batch), min(batch["seconds"]) / simulate(page.load_of(batch)).steps)
        for batch in _small(RECORDED[file])
    )
    more_each = [(second - first) / (more - fewer) for (fewer, first), (more, second) in pairwise(points)]
    assert all(low < seconds <= high for seconds in more_each)
    assert [round(1e6 * seconds) for seconds in sorted(more_each)] == said


@pytest.mark.parametrize("batches", RECORDED.values(), ids=FILES)
def test_the_host_that_two_batches_show_predicts_the_others(batches: list[Batch], page: ModuleType) -> None:
    """Other limits, another model and smaller caches: none of them was looked at for the host."""
    host = page.host_of(batches)
    teachers = page.teachers(batches)
    errors = {_name(batch): page.seconds_beside(batch, host) / min(batch["seconds"]) - 1 for batch in batches}
    for teacher in teachers:
        assert errors.pop(_name(teacher)) == pytest.approx(0, abs=2e-3)
    assert errors and max(map(abs, errors.values())) < ENGINE_ERROR
    whole = {
        model: max(b["cache_blocks"] for b in batches if b["model"] == model) for model in _models(batches)
    }
    of_limits = [
        abs(errors[_name(batch)])
        for batch in batches
        if batch not in teachers and batch["cache_blocks"] == whole[batch["model"]]
    ]
    assert max(of_limits) <= 0.10  # as the page says
    untold = [page.seconds(batch, page.prices_of(batch)) / min(batch["seconds"]) for batch in _small(batches)]
    assert max(abs(ratio - 1) for ratio in untold) > 1.5 * ENGINE_ERROR  # without it
    assert sum(untold) / len(untold) < 1  # and these hosts are slower than what is typical


def test_the_typical_host_lies_between_those_that_were_measured(page: ModuleType) -> None:
    """Beside an H200 a step of 256 sequences took 5.7 to 6.0 ms, and no more than these grow with them."""
    hosts = [page.host_of(batches) for batches in RECORDED.values()] + [(0.0, 24e-6)]
    step, sequence = (sum(host[place] for host in hosts) / len(hosts) for place in (0, 1))
    assert pytest.approx(step, rel=0.05) == assumptions.ENGINE_STEP_S
    assert pytest.approx(sequence, rel=0.05) == assumptions.ENGINE_SEQUENCE_S


def _models(batches: list[Batch]) -> set[str]:
    return {batch["model"] for batch in batches}


def test_one_factor_for_a_step_and_its_sequences_says_less(page: ModuleType) -> None:
    """What a profile keeps where the steps of two numbers of sequences did not tell both."""
    worst = 0.0
    for batches in RECORDED.values():
        of_small = [batch for batch in batches if batch["model"] == _small(batches)[0]["model"]]
        for teacher in of_small:
            host = _with_one_factor(lambda host, batch=teacher: page.seconds_beside(batch, host), teacher)
            errors = [page.seconds_beside(one, host) / min(one["seconds"]) - 1 for one in of_small]
            worst = max(worst, *map(abs, errors))
    assert ENGINE_ERROR < worst < ENGINE_ERROR_OF_ONE_FACTOR


def _with_one_factor(seconds: Callable[[tuple[float, float]], float], batch: Batch) -> tuple[float, float]:
    fast, slow = 0.5, 20.0
    host = (0.0, 0.0)
    for _ in range(16):
        times = (fast * slow) ** 0.5
        host = (times * assumptions.ENGINE_STEP_S, times * assumptions.ENGINE_SEQUENCE_S)
        fast, slow = (fast, times) if seconds(host) > min(batch["seconds"]) else (times, slow)
    return host


@pytest.mark.parametrize("model", sorted(_models(TWO_MODELS)))
def test_a_larger_cache_ends_a_rollout_sooner_as_much_as_modelled(model: str, page: ModuleType) -> None:
    """What the rules on the rollout's share of memory claim: a batch that the cache limits."""
    host = page.host_of(TWO_MODELS)
    limited = sorted(
        (batch for batch in TWO_MODELS if batch["model"] == model and batch["limit"] == 1024),
        key=lambda batch: int(batch["cache_blocks"]),
    )
    measured = [min(batch["seconds"]) for batch in limited]
    modelled = [page.seconds_beside(batch, host) for batch in limited]
    assert len(limited) == 3 and min(limited[0]["preemptions"]) > min(limited[1]["preemptions"]) > 0
    assert measured == sorted(measured, reverse=True) and modelled == sorted(modelled, reverse=True)
    for before, after in ((0, 2), (1, 2)):
        gain, claimed = (1 - seconds[after] / seconds[before] for seconds in (measured, modelled))
        assert claimed == pytest.approx(gain, abs=0.10)


@pytest.mark.parametrize("batch", BATCHES, ids=_name)
def test_every_token_of_a_batch_is_simulated(batch: Batch, page: ModuleType) -> None:
    assert simulate(page.load_of(batch)).tokens == pytest.approx(sum(batch["responses"]), rel=1e-6)
