"""Activations of the experts of a small layer, worked out by hand.

Hidden states have 100 entries; two of eight experts take a token, each 30 wide. Two bytes to compute with.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.memory.test_attention_by_hand import LORA, MODEL, engine
from tuner.memory.layer.experts import experts_backward_bytes, experts_forward_bytes, experts_saved_bytes
from tuner.model_shape import MixtureOfExperts
from tuner.workload import Checkpointing

MOE = MixtureOfExperts(experts=8, experts_per_token=2, expert_intermediate=30)
FUSED, FROZEN = {"fused_layers": True}, {"lora": LORA}  # adapters of three
SHARED, GATED = {"shared_intermediate": 40}, {"shared_intermediate": 40, "shared_gate": True}
GPT_OSS = {"expert_bias": True}

Case = tuple[str, dict[str, Any], dict[str, Any], int]

# Of a copy: input and output, 400 B; gate, activated gate, up and product, 240 B; a weight of 2 B, four
# indices and a flag. Then the input of 200 B, and eight scores in float32.
COPY = 640 + 2 + 32 + 1
SAVED: list[Case] = [
    ("qwen3_moe", {}, {}, 200 + 2 * COPY + 32),
    ("mixtral", {}, {}, 200 + 2 * (COPY + 2) + 32),  # weights in float32
    # Seven tensors of an expert's width and a fifth index; two scores in bfloat16.
    ("gpt_oss", GPT_OSS, {}, 200 + 2 * (COPY + 3 * 60 + 8) + 4),
    ("gpt_oss", GPT_OSS, FROZEN, 2 * (COPY - 200 - 60 + 3 * 60) + 4),
    ("qwen3_moe", {}, FROZEN, 2 * (COPY - 200 - 60) + 32),  # neither input nor product, nor the tokens
    # Shared experts keep 4 x 80 B, adapters 6 B each; a gate's input and score are 202 B.
    ("qwen3_moe", SHARED, {}, 200 + 2 * COPY + 32 + 320),
    ("qwen3_moe", SHARED, FROZEN, 200 + 2 * (COPY - 260) + 32 + 320 + 18),
    ("qwen2_moe", GATED, {}, 200 + 2 * COPY + 32 + 320 + 202),
    ("qwen2_moe", GATED, FROZEN, 200 + 2 * (COPY - 260) + 32 + 320 + 202 + 24),
    ("qwen2_moe", GATED, FUSED, 200 + 2 * COPY + 32 + 240 + 202),  # whose experts Liger leaves alone
    # The router's own input, and scores of a sigmoid in bfloat16.
    ("deepseek_v2", {}, {}, 200 + 2 * (COPY + 2) + 32 + 200),
    ("deepseek_v3", {}, {}, 200 + 2 * COPY + 16 + 200),
    ("deepseek_v3", {}, FROZEN, 2 * (COPY - 260) + 16),
    # Liger's: gate and up 120 B, a weight, an index of eight bytes and three of four.
    ("qwen3_moe", {}, FUSED, 200 + 2 * (120 + 2 + 8 + 12) + 32),
    ("mixtral", {}, FUSED, 200 + 2 * (120 + 4 + 8 + 12) + 32),
    ("qwen3_moe", {}, FUSED | FROZEN, 200 + 2 * (120 + 2 + 8 + 12) + 32),
]

# Stream, input and eight logits are 416 B. Of a copy 33 B of numbers, and four tensors when outputs are put
# back, 808 B with an index; or, of experts that are 130 wide, 200 B and 4 x 260 B while they work.
WIDE = {"expert_intermediate": 130}
FORWARD: list[Case] = [
    ("qwen3_moe", {}, {}, 416 + 2 * (33 + 808)),
    ("mixtral", {}, {}, 416 + 2 * (33 + 4 + 808 + 400)),
    ("qwen3_moe", WIDE, {}, 416 + 2 * (33 + 200 + 1040)),
    ("gpt_oss", WIDE, {}, 416 + 2 * (33 + 200 + 7 * 260)),
    ("gpt_oss", WIDE | GPT_OSS, {}, 416 + 2 * (33 + 200 + 9 * 260)),
    ("qwen3_moe", SHARED, {}, 416 + 2 * (33 + 808)),
    ("qwen2_moe", SHARED, {}, 416 + 200 + 2 * (33 + 808)),  # shared experts come first
    ("qwen2_moe", {}, {}, 416 + 2 * (33 + 808)),
    ("qwen3_moe", {"shared_intermediate": 1000}, {}, 2 * (300 + 3000)),
    # Liger's: the sum, and of a copy its output, three tensors, and 26 B of numbers.
    ("qwen3_moe", {}, FUSED, 416 + 200 + 2 * (200 + 180 + 26)),
    ("mixtral", {}, FUSED, 416 + 200 + 2 * (200 + 180 + 28)),
]

# The gradient of 200 B. When outputs are put back, three tensors of a copy less an index, 592 B; in experts
# that are 400 wide two gradients of 800 B less their output and the index, 1,392 B.
KEPT = {"checkpointing": Checkpointing.NONE}
WIDER = {"expert_intermediate": 400}
BACKWARD: list[Case] = [
    ("qwen3_moe", {}, {}, 200 + 2 * 592),
    ("qwen3_moe", {}, KEPT, 200 + 2 * 594),
    ("mixtral", {}, {}, 200 + 2 * 1192),
    ("mixtral", {}, KEPT, 200 + 2 * 1392),
    ("qwen3_moe", WIDER, {}, 200 + 2 * 1392),
    ("qwen3_moe", WIDER, FROZEN, 200 + 2 * 2192),
    # Shared experts have given back 320 B, less the 200 B of the gradient that they made.
    ("qwen3_moe", SHARED, {}, 200 - 120 + 2 * 592),
    ("qwen3_moe", SHARED, FUSED, 200 - 40 + 200 + 2 * (200 + 180 + 2)),
    ("deepseek_v3", SHARED, {}, 200 - 320 + 2 * 592),  # and their input, of which the router has a copy
    ("qwen3_moe", SHARED, FROZEN, 200 - 320 - 18 + 2 * 592),
    ("qwen3_moe", SHARED, FUSED | FROZEN, 200 - 40 - 18 + 200 + 2 * (200 + 180 + 2)),
    # Which come first are to be differentiated yet: a gradient more, and that of their gate.
    ("qwen2_moe", SHARED, {}, 200 + 198 + 2 * 592),
    ("qwen2_moe", SHARED, FROZEN, 200 + 198 - 6 + 2 * 592),
    # In wide shared experts two gradients, with Liger one; and a given back adapter.
    ("qwen3_moe", {"shared_intermediate": 1000}, {}, 200 + 4000),
    ("qwen3_moe", {"shared_intermediate": 1000}, FROZEN, 200 + 4000 - 6),
    ("qwen3_moe", {"shared_intermediate": 1000}, FUSED, 200 + 2000),
    ("qwen2_moe", {"shared_intermediate": 1000}, FUSED, 200 + 2000),
]


@pytest.mark.parametrize(
    ("size", "case"),
    [
        *((experts_saved_bytes, case) for case in SAVED),
        *((experts_forward_bytes, case) for case in FORWARD),
        *((experts_backward_bytes, case) for case in BACKWARD),
    ],
)
def test_experts_of_a_small_layer(size: Any, case: Case) -> None:
    architecture, experts, changes, expected = case
    model = replace(MODEL, architecture=architecture)
    assert size(model, engine(**changes), replace(MOE, **experts)) == expected
