"""Activations of an MLP and of norms of a small model, worked out by hand.

Hidden states have 100 entries, the MLP 50. Two bytes to compute with.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.memory.test_attention_by_hand import LORA, MODEL, engine
from tuner.memory.layer.mlp import mlp_backward_bytes, mlp_forward_bytes, mlp_saved_bytes
from tuner.memory.layer.norms import (
    norm_backward_bytes,
    norm_gradient_bytes,
    norm_saved_bytes,
    norms_saved_bytes,
)
from tuner.workload import Checkpointing

GPT2 = {"architecture": "gpt2", "gated_mlp": False}  # writes GELU out
NEMOTRON = {"architecture": "nemotron", "gated_mlp": False}  # squares ReLU
PHI3 = {"architecture": "phi3"}  # gate and up are one matrix
QWEN3_VL = {"architecture": "qwen3_vl"}  # Liger has norms and rotation for it, and no activation
OLMO2 = {"architecture": "olmo2"}  # norms behind its blocks alone, in float32
FUSED = {"fused_layers": True}
NONE = {"checkpointing": Checkpointing.NONE}


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        # The input, and gate, activated gate, up and product.
        ({}, {}, 200 + 4 * 100),
        ({}, FUSED, 200 + 3 * 100),
        (QWEN3_VL, FUSED, 200 + 4 * 100),
        ({}, {"lora": LORA}, 200 + 4 * 100 + 3 * 6),  # six bytes of each of three adapters
        (PHI3, {"lora": LORA}, 200 + 4 * 100 + 2 * 6),
        (GPT2, {"lora": LORA}, 200 + 18 * 50 + 2 * 6),
        (GPT2, {}, 200 + 18 * 50),  # three tensors in either dtype
        (NEMOTRON, {}, 200 + 8 * 50),  # what is squared in both, and the square
        (NEMOTRON, FUSED, 200 + 4 * 50),
    ],
)
def test_what_an_mlp_saves(model: dict[str, Any], changes: dict[str, Any], expected: int) -> None:
    assert mlp_saved_bytes(replace(MODEL, **model), engine(**changes), 0) == expected


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        ({}, {}, 2 * (200 + 3 * 50)),
        (PHI3, {}, 2 * (200 + 4 * 50)),
        (PHI3, FUSED, 2 * (200 + 5 * 50)),  # copies either half
        ({}, FUSED, 2 * (200 + 3 * 50)),
        ({}, {"lora": LORA}, 2 * (200 + 4 * 50)),
        (PHI3, {"lora": LORA}, 2 * (200 + 6 * 50)),
        (GPT2, {}, 2 * (200 + 2 * 50)),
        (NEMOTRON, {}, 2 * (200 + 2 * 50) + 8 * 50),
        (NEMOTRON, FUSED, 2 * (200 + 2 * 50)),
        (OLMO2, {}, 2 * (100 + 3 * 50)),  # its input is the residual stream
    ],
)
def test_what_an_mlp_needs_without_gradients(
    model: dict[str, Any], changes: dict[str, Any], expected: int
) -> None:
    assert mlp_forward_bytes(replace(MODEL, **model), engine(**changes), 0) == expected


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        ({}, {}, 2 * (100 + 2 * 50)),
        ({}, {"lora": LORA}, 2 * (100 + 2 * 50) - 6),  # what the last adapter kept is given back
        (GPT2, {}, 2 * (100 + 50)),
        (NEMOTRON, {}, 200 + 14 * 50),  # four float32 tensors, less the square
        (NEMOTRON, {"lora": LORA}, 200 + 14 * 50 - 6),
        (NEMOTRON, FUSED, 2 * (100 + 50)),
        ({}, FUSED, 2 * (100 + 50)),
        ({}, FUSED | {"lora": LORA}, 2 * (100 + 50) - 6),
        (OLMO2, FUSED, 2 * (200 + 50)),  # a norm follows
        (PHI3, FUSED, 2 * (100 + 2 * 50)),  # computed again, with a copy of gate and up
        (PHI3, FUSED | NONE, 2 * (100 + 50)),
    ],
)
def test_what_the_backward_pass_of_an_mlp_adds(
    model: dict[str, Any], changes: dict[str, Any], expected: int
) -> None:
    assert mlp_backward_bytes(replace(MODEL, **model), engine(**changes), 0) == expected


@pytest.mark.parametrize(
    ("model", "changes", "one", "layer"),
    [
        # A float32 copy of the input, the normalised values and a scale; two norms of a layer.
        ({}, {}, 6 * 100 + 4, 2 * 604),
        (OLMO2, {}, 8 * 100 + 4, 2 * 804),
        ({}, {"lora": LORA}, 4 * 100 + 4, 2 * 404),
        # The input alone, which checkpointing keeps anyway of the first.
        ({}, FUSED, 204, 2 * 204 - 200),
        ({}, FUSED | NONE, 204, 2 * 204),
        (OLMO2, FUSED, 204, 2 * 204),  # whose first norm is behind a block
        (NEMOTRON, {}, 208, 2 * 208 - 200),
        (NEMOTRON, NONE, 208, 2 * 208),
    ],
)
def test_what_norms_save(model: dict[str, Any], changes: dict[str, Any], one: int, layer: int) -> None:
    shape, own = replace(MODEL, **model), engine(**changes)
    assert norm_saved_bytes(shape, own) == one
    assert norms_saved_bytes(shape, own) == layer


@pytest.mark.parametrize(
    ("model", "changes", "behind", "through"),
    [
        # The gradient and five float32 tensors, less the normalised values and the scale.
        ({}, {}, 0, 20 * 100 - 4),
        ({"architecture": "glm4"}, {}, 20 * 100 - 4, 20 * 100 - 4),
        (OLMO2, {}, 18 * 100 - 4, 18 * 100 - 4),
        (OLMO2, {"lora": LORA}, 22 * 100 - 4, 18 * 100 - 4),
        (OLMO2, FUSED, 0, 2 * 2 * 100),
        (NEMOTRON, {}, 0, 2 * 2 * 100),
    ],
)
def test_what_the_backward_pass_of_a_norm_adds(
    model: dict[str, Any], changes: dict[str, Any], behind: int, through: int
) -> None:
    shape, own = replace(MODEL, **model), engine(**changes)
    assert norm_backward_bytes(shape, own) == behind
    assert norm_gradient_bytes(shape, own) == through
