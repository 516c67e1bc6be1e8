"""Seconds and bytes of one decoder layer, worked out by hand and from the measured tables' own columns."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.workloads import H100, QWEN3_30B_A3B, QWEN25_7B
from tuner.dtypes import DType
from tuner.model_shape import LatentAttention, LinearAttention, QueryKeyNorm
from tuner.timing.assumptions import MEMORY_SHARE
from tuner.timing.layer import (
    LayerWork,
    attention_seconds,
    average_layer,
    cached_keys,
    checkpoint_values,
    elementwise_bytes,
    elementwise_seconds,
    layer_product_seconds,
    product_seconds,
    visible_keys,
    weight_read_seconds,
)

TABLE = json.loads(
    (Path(__file__).parents[2] / "profiles" / "operators" / "h100-sxm.json").read_text(encoding="utf-8")
)
TOKENS = 2048
# 2,048 tokens of each of these numbers of values are a column of the table of element-wise operations:
# 2^23 hidden values, 2^21 that are normalised and 2^22 that are turned, 2^24 of the MLP. Those of four
# copies that go to experts, 2^25, lie halfway between two columns of the table of routing.
LAYER = LayerWork(
    hidden=4096,
    intermediate=8192,
    head_dim=128,
    norms=2,
    parameters=3e8,
    active_parameters=2e8,
    routed_parameters=1.5e8,
    routed_active=5e7,
    expert_width=768,
    expert_share=1 / 16,
    attention_width=8192,
    query_key_values=2048,
    normed_query_keys=1024,
    gated_values=8192,
    routed_copies=4,
    window=None,
    windowed_share=0.0,
)


def measured(operation: str, values: int, direction: str = "forward") -> float:
    """Bytes of an operation on a measured number of values."""
    table = TABLE["elementwise"]
    per_value: float = table[operation][direction][table["values"].index(values)]
    return per_value * values


def routed(direction: str = "forward") -> float:
    """Bytes of routing 2^25 values: the geometric mean of what was measured of half and of twice as many."""
    first, second, *_rest = TABLE["routing"][direction]
    assert TABLE["routing"]["values"][:2] == [2**24, 2**26]
    return float((first * second) ** 0.5 * 2**25)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_operators_one_after_the_other_move_what_was_measured_of_each(direction: str) -> None:
    """Two norms, two residuals, the norms of queries and keys, rotation, the gate and routing."""
    expected = (
        2 * measured("norm", 2**23, direction)
        + 2 * measured("residual", 2**23)  # gradients are added up by as many additions
        + measured("norm", 2**21, direction)
        + measured("rotary", 2**22, direction)
        + measured("gate", 2**24, direction)
        + routed(direction)
    )
    found = elementwise_bytes(LAYER, TOKENS, H100, fused=False, backward=direction == "backward")
    assert found == pytest.approx(expected)


def test_fused_operators_read_and_write_once() -> None:
    """A token moves 4,096 x (2 x 4 + 12) B of norms and residuals, 1,024 x 4 of norms of queries and keys.

    And 2,048 x 4 of rotation, 8,192 x 6 of the gate, and 4 x 4,096 x 8 of the copies that go to experts.
    """
    token = 81_920 + 4_096 + 8_192 + 49_152 + 131_072
    assert elementwise_bytes(LAYER, TOKENS, H100, fused=True) == TOKENS * token
    assert elementwise_bytes(LAYER, TOKENS, H100, fused=True, backward=True) == 2 * TOKENS * token


def test_a_gate_that_stays_unfused_moves_what_was_measured_of_it() -> None:
    token = 81_920 + 4_096 + 8_192 + 131_072
    forward = elementwise_bytes(LAYER, TOKENS, H100, fused=True, fused_gate=False)
    assert forward == pytest.approx(TOKENS * token + measured("gate", 2**24, "forward"))
    backward = elementwise_bytes(LAYER, TOKENS, H100, fused=True, backward=True, fused_gate=False)
    assert backward == pytest.approx(2 * TOKENS * token + measured("gate", 2**24, "backward"))


@pytest.mark.parametrize(("dtype", "share"), [(DType.BFLOAT16, 1), (DType.FLOAT32, 2), (DType.FLOAT8, 0.5)])
def test_bytes_of_another_dtype_are_as_many_more(dtype: DType, share: float) -> None:
    token = 81_920 + 4_096 + 8_192 + 49_152 + 131_072
    found = elementwise_seconds(LAYER, TOKENS, H100, dtype, fused=True)
    assert found == pytest.approx(share * TOKENS * token / (3.35e12 * MEMORY_SHARE))


def test_weights_are_read_once() -> None:
    assert weight_read_seconds(1e9, H100, DType.BFLOAT16) == pytest.approx(2e9 / (3.35e12 * MEMORY_SHARE))


# -- products and attention ------------------------------------------------------------------------


def share(table: str, size: float, tokens: float, direction: str = "forward") -> float:
    """A measured share of the peak."""
    shares = TABLE[table]
    return float(shares[direction][shares["sizes"].index(size)][shares["tokens"].index(tokens)])


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_products_reach_the_measured_share_of_the_peak(direction: str) -> None:
    """2 x 10^8 weights x 16,384 tokens over 989.4 TFLOP/s."""
    backward = direction == "backward"
    found = product_seconds(1e8, 16_384, H100, DType.BFLOAT16, width=3584, backward=backward)
    peak = 2e8 * 16_384 / 989.4e12
    assert found == pytest.approx(peak / share("products", 3584, 16_384, direction))


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_experts_multiply_the_tokens_of_all_their_ranks(direction: str) -> None:
    """A sixteenth of 2,048 tokens of each of eight ranks, 1,024, come to an expert.

    Beside it, each token is multiplied with the 1.5 x 10^8 weights that no expert has; two ranks of tensor
    parallelism share them all, and a side of 7,168 is as narrow as the other with 3,584 on each of them.
    """
    backward = direction == "backward"
    dtype = DType.BFLOAT16
    layer = replace(LAYER, hidden=9_000, intermediate=7_168)
    found = layer_product_seconds(layer, TOKENS, H100, dtype, split=2, expert_ranks=8, backward=backward)
    peak = 989.4e12
    shared = 2 * 7.5e7 * TOKENS / (peak * share("products", 3584, 2048, direction))
    experts = 2 * 2.5e7 * TOKENS / (peak * share("grouped", 768, 1024, direction))
    assert found == pytest.approx(shared + experts, rel=1e-6)
    alone = layer_product_seconds(
        replace(layer, routed_active=0.0, active_parameters=1.5e8),
        TOKENS,
        H100,
        dtype,
        split=2,
        backward=backward,
    )
    assert alone == pytest.approx(shared)


@pytest.mark.parametrize(("direction", "times"), [("forward", 1), ("backward", 2.5)])
def test_attention_multiplies_each_query_with_half_of_the_keys(direction: str, times: float) -> None:
    """2 x 2,048 tokens x 2,048 keys x 8,192 values of keys and values, and 2.5 times that backward."""
    found = attention_seconds(LAYER, TOKENS, 4096, H100, backward=direction == "backward")
    flop = times * 2 * TOKENS * 2048 * 8192
    assert found == pytest.approx(flop / (989.4e12 * share("attention", 128, 4096, direction)))


def test_the_narrower_side_of_an_mlp_may_be_the_one_that_ranks_share() -> None:
    assert (LAYER.width(1), LAYER.width(2), LAYER.width(4)) == (4096, 4096, 2048)


# -- the average layer ---------------------------------------------------------------------------------


def test_the_average_layer_of_qwen3_30b() -> None:
    """A layer has 128 experts of 3 x 2,048 x 768, of which a token is multiplied with eight.

    Attention 2 x 2,048 x 4,096 + 2 x 2,048 x 512, norms 2 x 2,048 + 2 x 128, router 128 x 2,048.
    """
    layer = average_layer(QWEN3_30B_A3B)
    expert, rest = 4_718_592, 18_874_368 + 4_352 + 262_144
    assert layer.parameters == rest + 128 * expert
    assert layer.active_parameters == rest + 8 * expert
    assert (layer.routed_parameters, layer.routed_active) == (128 * expert, 8 * expert)
    assert (layer.hidden, layer.intermediate, layer.head_dim, layer.norms) == (2048, 6144, 128, 2)
    assert (layer.expert_width, layer.expert_share) == (768, 8 / 128)
    assert layer.attention_width == 32 * 256
    assert layer.query_key_values == layer.normed_query_keys == 36 * 128
    assert (layer.gated_values, layer.routed_copies) == (8 * 768, 8)
    assert (layer.window, layer.windowed_share) == (None, 0)


def test_the_average_layer_of_a_model_with_dense_layers_first() -> None:
    """Twelve of 48 layers have an MLP of 6,144, the others eight experts of 768 and a shared one of 1,000."""
    assert QWEN3_30B_A3B.moe is not None
    moe = replace(QWEN3_30B_A3B.moe, dense_layers=tuple(range(12)), shared_intermediate=1000)
    layer = average_layer(replace(QWEN3_30B_A3B, moe=moe, qk_norm=QueryKeyNorm.NONE))
    assert layer.gated_values == 0.25 * 6_144 + 0.75 * (8 * 768 + 1_000)
    assert layer.routed_copies == 0.75 * 8
    assert (layer.routed_parameters, layer.routed_active) == (96 * 4_718_592, 6 * 4_718_592)
    assert layer.normed_query_keys == 0


def test_values_of_latent_attention_have_a_width_of_their_own() -> None:
    latent = LatentAttention(
        q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=100
    )
    assert average_layer(replace(QWEN25_7B, latent=latent)).attention_width == 28 * (128 + 100)


def test_experts_narrower_than_the_model_and_wider() -> None:
    assert QWEN3_30B_A3B.moe is not None
    wide = replace(QWEN3_30B_A3B, moe=replace(QWEN3_30B_A3B.moe, expert_intermediate=3_000))
    assert average_layer(wide).expert_width == 2_048
    assert average_layer(QWEN25_7B).expert_width == 3_584
    assert average_layer(QWEN25_7B).expert_share == 1
    assert average_layer(QWEN25_7B).routed_active == 0


def test_layers_of_linear_attention_see_no_keys() -> None:
    """Seven of 28 layers attend, with 28 heads of keys and values of 128 each."""
    linear = LinearAttention(
        key_heads=2,
        value_heads=4,
        key_head_dim=64,
        value_head_dim=64,
        conv_kernel=4,
        layers=tuple(layer for layer in range(28) if layer % 4),
    )
    assert average_layer(replace(QWEN25_7B, linear=linear)).attention_width == 0.25 * 28 * 256


def test_a_window_as_long_as_the_sequence_is_none() -> None:
    """A quarter of the layers sees 1,000 keys at most: 750 in the mean of 2,000 tokens, others 1,000."""
    layer = replace(LAYER, window=1000, windowed_share=0.25)
    assert visible_keys(layer, 1000) == 500
    assert visible_keys(layer, 2000) == 0.25 * 750 + 0.75 * 1000
    assert cached_keys(layer, 900) == 900
    assert cached_keys(layer, 2000) == 0.25 * 1000 + 0.75 * 2000
    assert cached_keys(LAYER, 2000) == 2000


# -- the host, and what is kept --------------------------------------------------------------------------


def test_values_that_offloading_copies_away() -> None:
    assert checkpoint_values(LAYER, whole_layer=True) == 4_096
    assert checkpoint_values(LAYER, whole_layer=False) == 6 * 4_096 + 2 * 2_048 + 3 * 8_192
