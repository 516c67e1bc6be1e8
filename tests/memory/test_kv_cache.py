"""Bytes of the KV cache, against numbers computed by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.dtypes import DType
from tuner.memory.rollout.kv_cache import (
    block_tokens,
    cached_layers,
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    state_bytes_per_layer,
)
from tuner.models import find_model
from tuner.workload import Rollout, RolloutEngine

ONE_GPU = workloads.rollout(gpus=8, tensor_parallel=1)
QWEN, DEEPSEEK = find_model("Qwen/Qwen2.5-7B-Instruct"), find_model("deepseek-ai/DeepSeek-V3")
GEMMA, GPT_OSS = find_model("google/gemma-3-27b-it"), find_model("openai/gpt-oss-20b")
NEXT = find_model("Qwen/Qwen3-Next-80B-A3B-Instruct")


def on(tensor: int, **changes: object) -> Rollout:
    return replace(ONE_GPU, tensor_parallel=tensor, **changes)


@pytest.mark.parametrize(
    ("model", "rollout", "expected"),
    [
        (QWEN, on(1), 2 * 28 * 4 * 128 * 2),  # 57,344
        (QWEN, on(2), 2 * 28 * 2 * 128 * 2),
        (QWEN, on(8), 2 * 28 * 1 * 128 * 2),  # 4 heads on 8 GPUs: each on two of them
        (QWEN, on(1, kv_dtype=DType.FLOAT8), 2 * 28 * 4 * 128),
        (QWEN, on(1, pipeline_parallel=2), 2 * 14 * 4 * 128 * 2),
        (DEEPSEEK, on(1), 576 * 61 * 2),  # 512 + 64 values: 70,272
        (DEEPSEEK, on(8), 576 * 61 * 2),  # latents are not divided
        (NEXT, on(1), 2 * 12 * 2 * 256 * 2),  # 12 of 48 layers attend in full
    ],
)
def test_one_token(model, rollout, expected):
    assert kv_bytes_per_token(model, rollout) == expected


@pytest.mark.parametrize(
    ("cache", "model", "rollout", "bytes_per_token"),
    [
        ("Qwen2.5-7B", "qwen2.5-7b", on(1), 57_344),
        ("Qwen2.5-7B fp8", "qwen2.5-7b", on(1, kv_dtype=DType.FLOAT8), 57_344 // 2),
        ("Qwen2.5-7B tensor parallel 2", "qwen2.5-7b", on(2), 57_344 // 2),
        ("DeepSeek-V2-Lite", "deepseek-v2-lite", on(1), 31_104),
        ("DeepSeek-V2-Lite fp8", "deepseek-v2-lite", on(1, kv_dtype=DType.FLOAT8), 31_104 // 2),
    ],
)
def test_one_token_is_as_large_as_in_a_cache_on_a_gpu(cache, model, rollout, bytes_per_token):
    (probe,) = (one for one in recorded_probes() if one["probe"] == "kv-cache")
    step = next(one for one in probe["steps"] if one["cache"] == cache)
    assert step["tensor_bytes"] == step["tokens"] * bytes_per_token
    assert kv_bytes_per_token(find_model(model), rollout) == bytes_per_token
    assert 1 <= step["reserved_bytes"] / step["tensor_bytes"] < 1.2


def recorded_probes():
    return json.loads((RECORDED / "overhead-h200.json").read_text())["probes"]


def test_a_sequence_takes_whole_blocks():
    """33 tokens: 3 blocks of 16 in vLLM, 33 slots in SGLang, 2 blocks of 32 in TensorRT-LLM."""
    assert kv_bytes_per_sequence(QWEN, on(1), 33) == 57_344 * 48
    assert kv_bytes_per_sequence(QWEN, on(1, block_tokens=1), 33) == 57_344 * 33
    assert kv_bytes_per_sequence(QWEN, on(1, block_tokens=32), 33) == 57_344 * 64


@pytest.mark.parametrize(
    ("model", "full", "windowed"),
    [
        (GEMMA, 10, 60),  # 10 full, 52 windowed: groups of 10, the last padded
        (GPT_OSS, 12, 12),  # equal kinds: one group each
        (QWEN, 28, 0),
    ],
)
def test_layers_are_grouped_by_kind(model, full, windowed):
    layers = cached_layers(model, on(1))
    assert (layers.full, layers.windowed) == (full, windowed)


def test_kinds_of_nearly_equal_size_are_padded_to_the_larger():
    """13 full and 12 windowed layers: 13 and 13, not 24 and 12."""
    layers = cached_layers(replace(GPT_OSS, layers=25), on(1))
    assert (layers.full, layers.windowed) == (13, 13)


def test_a_window_stops_growing():
    """Gemma 3 27B, 32,768 tokens, window 1,024: 10 x 2,048 + 60 x (64 + 1) blocks of 16 x 8 KiB."""
    expected = (10 * 2048 + 60 * 65) * 16 * 8192
    assert kv_bytes_per_sequence(GEMMA, on(1), 32_768) == expected
    one_more = kv_bytes_per_sequence(GEMMA, on(1), 32_768 + 16) - expected
    assert one_more == 10 * 16 * 8192


def test_a_release_that_frees_no_windows_caches_all_layers_in_full():
    plain = kv_bytes_per_sequence(GEMMA, on(1, frees_windows=False), 32_768)
    assert plain == 62 * 32_768 * 8192


def test_a_prompt_that_is_read_lies_beside_the_window():
    """1,024 + 8,192 tokens: 576 blocks and one for a window that begins within a block."""
    expected = (10 * 2048 + 60 * 577) * 16 * 8192
    assert kv_bytes_per_sequence(GEMMA, on(1), 32_768, prefilled=8192) == expected


def test_states_of_linear_attention():
    """Qwen3-Next: 32 heads of 128 x 128 and 3 inputs of 8,192 channels, 2 bytes each, for 36 layers.

    A state of 1,097,728 B takes 34 times 16 tokens of 2,048 B, so blocks are 544 tokens long.
    """
    assert state_bytes_per_layer(NEXT, on(1)) == 2 * (32 * 128 * 128 + 3 * 8192)
    assert state_bytes_per_layer(NEXT, on(1, state_dtype=DType.FLOAT32)) == 4 * 32 * 128 * 128 + 2 * 3 * 8192
    assert state_bytes_per_layer(NEXT, on(2)) == 32 * 128 * 128 + 3 * 8192
    assert block_tokens(NEXT, on(1)) == 544
    block = 544 * 2048
    assert kv_bytes_per_sequence(NEXT, on(1), 4096) == 12 * 8 * block + 36 * block
    sglang = on(1, engine=RolloutEngine.SGLANG, block_tokens=1)
    assert kv_bytes_per_sequence(NEXT, sglang, 4096) == 12 * 4096 * 2048 + 36 * 1_097_728


def test_an_eight_bit_cache_leaves_states_alone():
    halved = on(1, kv_dtype=DType.FLOAT8)
    assert state_bytes_per_layer(NEXT, halved) == state_bytes_per_layer(NEXT, on(1))


@given(tokens=st.integers(1, 100_000), more=st.integers(1, 5_000))
def test_a_longer_sequence_never_takes_less(tokens, more):
    for model in (QWEN, GEMMA, DEEPSEEK, NEXT):
        assert kv_bytes_per_sequence(model, on(1), tokens) <= kv_bytes_per_sequence(
            model, on(1), tokens + more
        )


@given(tokens=st.integers(1, 100_000), tensor=st.sampled_from([1, 2, 4, 8]))
def test_the_ranks_together_hold_the_whole_cache(tokens, tensor):
    for model in (QWEN, GEMMA):
        assert tensor * kv_bytes_per_sequence(model, on(tensor), tokens) >= kv_bytes_per_sequence(
            model, on(1), tokens
        )
