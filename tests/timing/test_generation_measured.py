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
from tuner.timing.generation.step import shown_of_host
from tuner.timing.spreads import ENDS, ENGINE_ERROR, ENGINE_ERROR_OF_ONE_FACTOR, of_rate

pytestmark = pytest.mark.sampled(6)

Batch = dict[str, Any]

DOCS = Path(__file__).parents[2] / "docs"
DATA = DOCS / "validation" / "data"
FILES = ("vllm-0.24-generation-h100.json", "vllm-0.24-generation-h100-two-models.json")
RECORDED: dict[str, list[Batch]] = {
    file: json.loads((DATA / file).read_text(encoding="utf-8"))["generated"] for file in FILES
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


def test_without_its_host_the_engine_of_one_machine_is_told_less_surely(page: ModuleType) -> None:
    """Both hosts are slower than what is typical, one of them by much."""
    ratios = [
        [page.seconds(batch, page.prices_of(batch)) / min(batch["seconds"]) for batch in _small(batches)]
        for batches in RECORDED.values()
    ]
    assert max(abs(ratio - 1) for of_machine in ratios for ratio in of_machine) > 1.5 * ENGINE_ERROR
    assert all(sum(of_machine) / len(of_machine) < 1 for of_machine in ratios)


def test_the_typical_host_lies_between_those_that_were_measured(page: ModuleType) -> None:
    """Beside one H200 256 sequences and more took 24 us each, and did not tell what a step takes besides."""
    hosts = [page.host_of(batches) for batches in RECORDED.values()] + [_few_sequences()]
    steps, sequences = zip(*hosts, strict=True)
    assert pytest.approx(sum(steps) / 3, rel=0.05) == assumptions.ENGINE_STEP_S
    assert pytest.approx((sum(sequences) + 24e-6) / 4, rel=0.05) == assumptions.ENGINE_SEQUENCE_S


def _few_sequences() -> tuple[float, float]:
    """A step and each of its sequences beside another H200, of steps of 1 and of 128 in one process."""
    seconds = _steps("uni-4-layers", "bare")
    sequence = (seconds[128] - seconds[1]) / 127
    return seconds[1] - sequence, sequence


def _steps(start: str, way: str) -> dict[int, float]:
    """Seconds of one step by its sequences."""
    record = json.loads((DATA / "engine-steps-h200.json").read_text(encoding="utf-8"))
    (rows,) = [one["steps"] for one in record["starts"] if one["start"] == start]
    return {row["sequences"]: sum(row["seconds"]) / 2 for row in rows if row["way"] == way}


@pytest.mark.parametrize("sequences", [4, 16, 64])
def test_two_steps_of_processes_take_what_both_hosts_and_the_gpu_take_for_one(sequences: int) -> None:
    """As the engine of verl's server took, by what one in a single process took on the same machine."""
    alone, apart = _steps("uni-4-layers", "bare")[sequences], _steps("verl-4-layers", "bare")[sequences]
    gpu = 0.3e-3  # weights of four layers and the head, by their bytes, and their kernels
    modelled = gpu + shown_of_host(gpu, 0.0, alone + assumptions.ENGINE_MESSAGES_S)
    assert apart == pytest.approx(modelled, rel=0.12)
    assert apart < 0.8 * alone  # no more than half of it would be the longer one's, of two processes


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
