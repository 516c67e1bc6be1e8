"""Five steps of verl's own workers that were recorded on two H100: what the memory model says of them."""

import json
from pathlib import Path

import pytest

from tests.cli.runner import run
from tuner.inputs.record.read import read_record

RECORD = Path(__file__).parents[2] / "docs" / "validation" / "data" / "record-two-h100"


@pytest.fixture(scope="module")
def peaks() -> dict[str, dict[str, float]]:
    result = run("accuracy", str(RECORD), "-f", "json")
    assert (result.code, result.err) == (0, "")
    return {row["phase"]: row for row in json.loads(result.out)["recorded"]}


@pytest.mark.parametrize("phase", ["old_log_prob", "ref_log_prob"])
def test_the_peak_of_a_pass_is_as_predicted(peaks: dict[str, dict[str, float]], phase: str) -> None:
    assert abs(peaks[phase]["error"]) < 0.05


def test_the_peak_of_the_update_lies_between_micro_batches_as_expected_and_full_ones(
    peaks: dict[str, dict[str, float]],
) -> None:
    """These workers get sequences in the order of their prompts, so that all mini-batches are alike.

    What is expected is of verl 0.9's own trainer, whose sequences lie in the order in which they ended.
    """
    row = peaks["update_actor"]
    assert row["predicted_bytes"] < row["measured_bytes"] < row["predicted_high_bytes"]
    assert row["measured_bytes"] > 0.98 * row["predicted_high_bytes"]


def test_recording_takes_milliseconds_of_a_phase() -> None:
    record = read_record(RECORD)
    timers = {"ref_log_prob": "ref"}
    metrics = {step.step: step.values for step in record.steps}
    beyond = [
        metrics[line.step][f"timing_s/{timers.get(line.phase.value, line.phase.value)}"] - line.seconds
        for line in record.workers[0].phases
        if line.step > 0
    ]
    assert len(beyond) == 20
    assert 0 < max(beyond) < 0.008  # what verl does around a call is in it


def test_the_metric_of_verl_is_the_highest_of_all_phases_before_it() -> None:
    record = read_record(RECORD)
    logged = record.steps[-1].values["perf/max_memory_allocated_gb"] * 2**30
    first = record.workers[0].phases
    assert logged == max(line.allocated_bytes or 0 for line in first)
    assert len({line.allocated_bytes for line in first}) > 3  # while every phase has a peak of its own
    assert {(line.step, line.phase) for line in first} == {
        (line.step, line.phase) for line in record.workers[1].phases
    }
