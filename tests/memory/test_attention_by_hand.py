"""Activations of an attention block of a small model, worked out by hand.

Hidden states have 100 entries; six heads of queries and two of keys are ten wide, 60 and 20 entries. Two
bytes to compute with.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.workloads import fsdp_engine
from tuner.memory.layer.attention import (
    attention_forward_bytes,
    attention_saved_bytes,
    linear_attention_saved_bytes,
    query_key_norm_saved_bytes,
)
from tuner.model_shape import LatentAttention, LinearAttention, ModelShape, QueryKeyNorm
from tuner.workload import Attention, Engine, Lora

MODEL = ModelShape(
    name="small",
    architecture="qwen2",
    hidden=100,
    layers=4,
    heads=6,
    kv_heads=2,
    head_dim=10,
    intermediate=50,
    vocab=1000,
    tied_embeddings=False,
    max_positions=64,
)
LORA = Lora(rank=3, parameters=1)
PER_HEAD, FULL = QueryKeyNorm.PER_HEAD, QueryKeyNorm.FULL


def engine(**changes: Any) -> Engine:
    ulysses = changes.pop("ulysses", 1)
    base = fsdp_engine(gpus=8)
    return replace(base, parallel=replace(base.parallel, ulysses=ulysses), **changes)


# Queries and output 2 x 2 x 60 B, keys and values 2 x 2 x 20 B, a float32 number of each head.
CORE = 320 + 24
INPUT = 2 * 100  # of the projections, behind a norm
OUTPUT = 2 * 60  # of the attention in another layout


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        ({}, {}, CORE + INPUT),
        ({"architecture": "olmo2"}, {}, CORE),  # whose blocks work on the residual stream itself
        ({"architecture": "glm4"}, {}, CORE + INPUT + 2 * 10),  # repeats every entry of its tables
        ({"attention_gate": True}, {}, CORE + INPUT + 2 * 2 * 60),  # a sigmoid and a product
        ({"qk_norm": PER_HEAD}, {}, CORE + INPUT + 6 * 80 + 4 * 8),
        ({}, {"lora": LORA}, CORE + INPUT + 4 * 2 * 3),
        ({"architecture": "phi3"}, {"lora": LORA}, CORE + INPUT + 2 * 2 * 3),  # two projections
        ({}, {"packed": False}, CORE + INPUT + OUTPUT),
        ({}, {"ulysses": 2}, CORE + INPUT + OUTPUT),
        ({}, {"ulysses": 4}, CORE + INPUT + OUTPUT + 80),  # each key head twice
        # Six heads of keys and of values in place of two.
        ({}, {"repeats_keys": True}, CORE + INPUT + 2 * 2 * 40),
        ({}, {"repeats_keys": True, "ulysses": 2}, CORE + INPUT + OUTPUT + 2 * 2 * 40),
        ({}, {"repeats_keys": True, "ulysses": 2, "packed": False}, CORE + INPUT + OUTPUT + 2 * 2 * 40),
        ({}, {"repeats_keys": True, "packed": False}, CORE + INPUT + OUTPUT),  # as transformers attends
        ({}, {"attention": Attention.MASKED_ROWS}, CORE + INPUT + 2 * 2 * 40),
        ({}, {"attention": Attention.CAUSAL_ROWS}, CORE + INPUT + 2 * 2 * 40),
    ],
)
def test_what_softmax_attention_saves(model: dict[str, Any], changes: dict[str, Any], expected: int) -> None:
    assert attention_saved_bytes(replace(MODEL, **model), engine(**changes)) == expected


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        # Float32 copies and normalised values of 80 entries, a scale of each of eight heads;
        ({"qk_norm": PER_HEAD}, {}, 6 * 80 + 4 * 8),
        ({"qk_norm": FULL}, {}, 6 * 80 + 4 * 2),  # or one of all queries and one of all keys.
        ({"qk_norm": FULL, "architecture": "olmo2"}, {}, 8 * 80 + 4 * 2),
        ({"qk_norm": PER_HEAD, "architecture": "gemma3_text"}, {}, 8 * 80 + 4 * 8),
        ({"qk_norm": PER_HEAD}, {"lora": LORA}, 4 * 80 + 4 * 8),
        ({"qk_norm": PER_HEAD}, {"fused_layers": True}, 2 * 80 + 4 * 8),
        ({"qk_norm": PER_HEAD}, {"fused_layers": True, "lora": LORA}, 2 * 80 + 4 * 8),
        ({"qk_norm": FULL}, {"fused_layers": True}, 6 * 80 + 4 * 2),  # Liger has no kernel for it
    ],
)
def test_what_norms_of_queries_and_keys_save(
    model: dict[str, Any], changes: dict[str, Any], expected: int
) -> None:
    assert query_key_norm_saved_bytes(replace(MODEL, **model), engine(**changes)) == expected


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        # The input, and four tensors of the width of queries, two of keys.
        ({}, {}, 200 + 2 * (240 + 40)),
        ({"architecture": "olmo2"}, {"fused_layers": True}, 2 * (240 + 40)),
        # Rotated in float32: 2 x (60 + 40) and 4 x (60 + 60) B.
        ({"architecture": "olmo2"}, {}, 200 + 480),
        # With one head of keys to twelve of queries that is less: 2 x (120 + 20) and 4 x (120 + 30) B.
        ({"architecture": "olmo2", "heads": 12, "kv_heads": 1}, {}, 2 * (480 + 20)),
        # Heads laid out anew: four of queries, five of keys, and what the kernel says of each head.
        ({"architecture": "phi3"}, {}, 200 + 2 * (240 + 100) + 24),
        # Normalised in float32: queries, and twice 4 B of them and of their scales.
        ({"qk_norm": PER_HEAD}, {}, 200 + 2 * 60 + 8 * 66),
        # Once keys and values exist as well.
        ({"qk_norm": PER_HEAD, "architecture": "glm4_moe"}, {}, 200 + 2 * (60 + 40) + 8 * 66),
        # Six heads of keys need more than the norm of queries does.
        ({"qk_norm": PER_HEAD, "kv_heads": 6}, {}, 200 + 2 * (240 + 120)),
    ],
)
def test_what_attention_needs_without_gradients(
    model: dict[str, Any], changes: dict[str, Any], expected: int
) -> None:
    assert attention_forward_bytes(replace(MODEL, **model), engine(**changes)) == expected


# -- latent attention ----------------------------------------------------------------------------

# Queries and keys are 8 + 4 wide, 72 entries of all heads, values nine, 54 entries.
LATENT = LatentAttention(
    q_lora_rank=30, kv_lora_rank=20, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=9
)
DEEP = replace(MODEL, architecture="deepseek_v3", head_dim=12, latent=LATENT)
DIRECT = replace(DEEP, latent=replace(LATENT, q_lora_rank=None))
# Input 100, queries, keys, padded values and output 4 x 72, the output cut to 54; a number of each head.
LATENT_CORE = 2 * (100 + 288 + 54) + 24


@pytest.mark.parametrize(
    ("model", "changes", "expected"),
    [
        # Compressed vectors of 20 and 30 entries: a float32 copy, normalised, and their output; a scale.
        (DEEP, {}, LATENT_CORE + 8 * 20 + 4 + 8 * 30 + 4),
        (DIRECT, {}, LATENT_CORE + 8 * 20 + 4),
        (DEEP, {"fused_layers": True}, LATENT_CORE + 4 * 20 + 4 + 4 * 30 + 4),
        (DEEP, {"lora": LORA}, LATENT_CORE + 6 * 20 + 4 + 6 * 30 + 4 + 5 * 2 * 3),
        (DIRECT, {"lora": LORA}, LATENT_CORE + 6 * 20 + 4 + 4 * 2 * 3),
        (DEEP, {"packed": False}, LATENT_CORE + 408 + 2 * 72),
        # Values as wide as keys are not cut.
        (
            replace(DEEP, latent=replace(LATENT, v_head_dim=12)),
            {},
            2 * (100 + 288) + 24 + 408,
        ),
    ],
)
def test_what_latent_attention_saves(model: ModelShape, changes: dict[str, Any], expected: int) -> None:
    assert attention_saved_bytes(model, engine(**changes)) == expected


def test_what_latent_attention_needs_without_gradients() -> None:
    """Projections 72 + 20 + 4 + 6 x 17, rotated parts 7 x 4, and 7 x 72 that is put together and copied."""
    assert attention_forward_bytes(DEEP, engine()) == 2 * (100 + 198 + 28 + 504) + 24


# -- linear attention ----------------------------------------------------------------------------


def test_what_linear_attention_saves() -> None:
    """Keys of 2 x 5 entries, values of 3 x 7: a convolution of 2 x 10 + 21 channels.

    Normalised queries and keys of three heads, 2 x 3 x 5, and four tensors of values, 4 x 21; for each of
    three heads 65 numbers and six of float32.
    """
    linear = LinearAttention(
        key_heads=2, value_heads=3, key_head_dim=5, value_head_dim=7, conv_kernel=4, layers=(0, 1)
    )
    saved = 2 * (100 + 41 + 30 + 84 + 195) + 6 * 4 * 3
    assert linear_attention_saved_bytes(replace(MODEL, linear=linear), engine()) == saved
    assert linear_attention_saved_bytes(MODEL, engine()) == 0
