"""Activation terms against measured slopes of plain training steps (bytes per token)."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.memory import activations
from tuner.models import find_model
from tuner.workload import Checkpointing

STEPS = RECORDED / "hf-train-step-h200.json"
CROSS_ENTROPY_BYTES_PER_LOGIT = 12  # transformers' own loss: float32 copy, log-softmax and its gradient


@pytest.mark.parametrize("name", ["Qwen2.5-0.5B", "Qwen2.5-1.5B", "Llama-3.2-1B", "Qwen3-4B"])
def test_saved_layers_meet_the_measured_slope(name: str) -> None:
    cases: list[dict[str, Any]] = json.loads(STEPS.read_text())["cases"]
    points = sorted(
        (case["tokens"], case["peak_allocated_bytes"])
        for case in cases
        if case["model"] == name
        and case["precision"] == "bf16_params"
        and not case["gradient_checkpointing"]
        and case["peak_allocated_bytes"]
    )
    (tokens, peak), (more_tokens, higher_peak) = points[0], points[-1]
    slope = (higher_peak - peak) / (more_tokens - tokens)
    model = find_model(name)
    engine = replace(workloads.grpo_0_5b().actor.engine, checkpointing=Checkpointing.NONE)
    predicted = (
        activations.all_layers_saved_bytes(model, engine) + CROSS_ENTROPY_BYTES_PER_LOGIT * model.vocab
    )
    assert predicted == pytest.approx(slope, rel=0.01)


def test_checkpointing_keeps_one_input_per_layer() -> None:
    workload = workloads.grpo_7b()
    kept = activations.layer_input_bytes(workload.model, workload.actor.engine)
    assert kept == 2 * workload.model.hidden
    whole = activations.all_layers_saved_bytes(workload.model, workload.actor.engine)
    assert whole > 10 * workload.model.layers * kept


def test_fused_layers_save_less() -> None:
    workload = workloads.grpo_7b()
    plain = replace(workload.actor.engine, fused_layers=False)
    fused = replace(workload.actor.engine, fused_layers=True)
    assert activations.layer_saved_bytes(workload.model, fused, 0) < activations.layer_saved_bytes(
        workload.model, plain, 0
    )
