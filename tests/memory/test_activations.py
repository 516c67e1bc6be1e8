"""Activation terms against measured slopes of plain training steps, and by what they must depend on."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.evidence import Evidence
from tuner.memory.batch import fields as batch_fields
from tuner.memory.layer import activations
from tuner.memory.layer.attention import attention_saved_bytes
from tuner.model_shape import ModelShape
from tuner.models import find_model
from tuner.workload import Checkpointing, Engine, Lora

STEPS = RECORDED / "hf-train-step-h200.json"
MODELS = ("Qwen2.5-0.5B", "Qwen2.5-1.5B", "Llama-3.2-1B", "Qwen3-4B")
CROSS_ENTROPY_BYTES_PER_LOGIT = 12  # transformers' own loss: float32 copy, log-softmax and its gradient


@pytest.fixture
def engine() -> Engine:
    return replace(workloads.grpo_0_5b().actor.engine, checkpointing=Checkpointing.NONE)


def measured_slope(name: str, *, checkpointing: bool) -> float:
    """Bytes per token between the two longest sequences, where the head decides the peak."""
    cases: list[dict[str, Any]] = json.loads(STEPS.read_text())["cases"]
    points = sorted(
        (case["tokens"], case["peak_allocated_bytes"])
        for case in cases
        if case["model"] == name
        and case["precision"] == "bf16_params"
        and case["gradient_checkpointing"] == checkpointing
        and case["peak_allocated_bytes"]
    )
    (tokens, peak), (more_tokens, higher_peak) = points[-2:]
    return float((higher_peak - peak) / (more_tokens - tokens))


def beside_the_layers(model: ModelShape, engine: Engine) -> int:
    """Final norm, rotary tables and loss: none of verl's batch is there."""
    tables = activations.shared_token_bytes(model, engine) - batch_fields.batch_token_bytes(engine)
    return activations.final_norm_bytes(model, engine) + tables + CROSS_ENTROPY_BYTES_PER_LOGIT * model.vocab


@pytest.mark.parametrize("name", MODELS)
def test_saved_layers_meet_the_measured_slope(name: str, engine: Engine) -> None:
    """Errors found: 0.02 % below to 0.02 % above, and 0.16 % above for Qwen3-4B, from 2,048 tokens on."""
    model = find_model(name)
    predicted = activations.all_layers_saved_bytes(model, engine) + beside_the_layers(model, engine)
    assert predicted == pytest.approx(measured_slope(name, checkpointing=False), rel=0.002)


@pytest.mark.parametrize("name", MODELS)
def test_layer_inputs_meet_the_measured_slope(name: str, engine: Engine) -> None:
    """Errors found: 0.02 % above at most, and 0.22 % above for Qwen3-4B, from 8,192 tokens on."""
    model = find_model(name)
    inputs = model.layers * activations.layer_input_bytes(model, engine)
    predicted = inputs + beside_the_layers(model, engine)
    assert predicted == pytest.approx(measured_slope(name, checkpointing=True), rel=0.003)


def test_checkpointing_keeps_one_input_per_layer() -> None:
    workload = workloads.grpo_7b()
    kept = activations.layer_input_bytes(workload.model, workload.actor.engine)
    assert kept == 2 * workload.model.hidden
    whole = activations.all_layers_saved_bytes(workload.model, workload.actor.engine)
    assert whole > 10 * workload.model.layers * kept


def test_fused_layers_keep_inputs_of_norms_and_no_activation(engine: Engine) -> None:
    """Per layer: 4 + 2 b - b of each norm's hidden width less, and the activated gate."""
    model = workloads.grpo_7b().model
    fused = replace(engine, fused_layers=True)
    less = activations.layer_saved_bytes(model, engine, 0) - activations.layer_saved_bytes(model, fused, 0)
    assert less == 2 * 4 * model.hidden + 2 * model.intermediate


def test_ulysses_keeps_the_output_in_both_layouts(engine: Engine) -> None:
    model = workloads.grpo_7b().model
    split = replace(engine, parallel=replace(engine.parallel, ulysses=2))
    more = attention_saved_bytes(model, split) - attention_saved_bytes(model, engine)
    assert more == 2 * model.heads * model.head_dim


def test_ulysses_repeats_key_heads_where_they_are_few(engine: Engine) -> None:
    model = workloads.grpo_7b().model
    wide = replace(engine, parallel=replace(engine.parallel, ulysses=4 * model.kv_heads))
    narrow = replace(engine, parallel=replace(engine.parallel, ulysses=model.kv_heads))
    more = attention_saved_bytes(model, wide) - attention_saved_bytes(model, narrow)
    assert more == 3 * 2 * 2 * model.kv_heads * model.head_dim


def test_padded_batches_keep_the_output_padded_and_not(engine: Engine) -> None:
    model = workloads.grpo_7b().model
    padded = replace(engine, packed=False)
    more = attention_saved_bytes(model, padded) - attention_saved_bytes(model, engine)
    assert more == 2 * model.heads * model.head_dim


def test_every_rank_of_a_sequence_has_the_whole_batch(engine: Engine) -> None:
    split = replace(engine, parallel=replace(engine.parallel, ulysses=4))
    fields = engine.token_bytes.whole
    assert batch_fields.batch_token_bytes(split) - batch_fields.batch_token_bytes(engine) == 3 * fields


@pytest.mark.parametrize(
    ("name", "evidence"),
    [
        ("qwen2.5-7b", Evidence.MODELLED),
        ("deepseek-v3", Evidence.MODELLED),
        ("Qwen3-Next-80B-A3B-Instruct", Evidence.HEURISTIC),
        ("gpt2", Evidence.HEURISTIC),
        ("Seed-OSS-36B-Instruct", Evidence.HEURISTIC),
    ],
)
def test_what_nothing_has_counted_is_a_heuristic(name: str, evidence: Evidence) -> None:
    assert activations.layer_evidence(find_model(name)) is evidence


@pytest.mark.parametrize("lora", [None, Lora(rank=8, parameters=1)])
@pytest.mark.parametrize("name", ["deepseek-v3", "qwen3-30b-a3b", "gemma-2-9b"])
def test_the_widest_layer_needs_the_most_of_all(name: str, lora: Lora | None, engine: Engine) -> None:
    """What a layer saves and what its backward pass adds are those of one and the same layer."""
    model, engine = find_model(name), replace(engine, lora=lora)
    saved = [activations.layer_saved_bytes(model, engine, layer) for layer in range(model.layers)]
    needs = [
        kept + activations.gradients_in_flight_bytes(model, engine, layer) for layer, kept in enumerate(saved)
    ]
    assert activations.largest_layer_saved_bytes(model, engine) == saved[needs.index(max(needs))]
