"""Megatron-Core's own training steps on GPUs, measured stage by stage, against the terms."""

from pathlib import Path
from statistics import median

import pytest

from docs._ext.megatron_steps import Stage, read_stages, steps
from tuner.memory import residents
from tuner.memory.megatron.stages import in_flight
from tuner.memory.process.overhead import CUBLAS_WORKSPACES

DATA = Path(__file__).parents[2] / "docs" / "validation" / "data" / "megatron-core-0.18.2-4xh200.json"


def named(stage: Stage) -> str:
    return "-".join(str(stage.measured[key]) for key in ("tensor", "pipeline", "stage", "recompute"))


ALL = read_stages(DATA)


@pytest.mark.parametrize("stage", ALL, ids=named)
def test_weights_and_gradient_buffer(stage: Stage) -> None:
    found = stage.measured["parameter_bytes"] + stage.measured["gradient_buffer_bytes"]
    parts = (residents.parameters, residents.gradients)
    expected = sum(part(stage.model, stage.engine).bytes for part in parts)
    assert expected == pytest.approx(found, rel=0.0005)


@pytest.mark.parametrize("stage", ALL, ids=named)
def test_main_weights_and_moments(stage: Stage) -> None:
    left = stage.measured["first_step_bytes"] - CUBLAS_WORKSPACES.typical
    expected = residents.optimizer(stage.model, stage.engine).bytes
    assert expected == pytest.approx(stage.measured["main_parameter_bytes"] + left, rel=0.01)


def test_the_peak_of_every_step() -> None:
    compared = [stage.compare(step) for stage, step in steps(ALL)]
    peaks, added = [abs(one.error) for one in compared], [abs(one.added_error) for one in compared]
    assert len(peaks) == 33
    assert median(peaks) < 0.005 and max(peaks) < 0.015
    assert median(added) < 0.01 and max(added) < 0.05


def test_the_first_stage_holds_two_micro_batches_where_there_are_two_stages() -> None:
    """The schedule itself: what the allocator saw when each forward pass began and ended."""
    for stage in ALL:
        if stage.measured["pipeline"] == 1:
            continue
        for step in stage.measured["steps"]:
            sizes = [end - begin for begin, end in step["forward"]]
            held = max(end for _, end in step["forward"]) - step["resident_bytes"]
            flight = in_flight(stage.engine.parallel, stage.measured["stage"], step["micro_batches"])
            assert held == pytest.approx(flight * sizes[0], rel=0.08)
