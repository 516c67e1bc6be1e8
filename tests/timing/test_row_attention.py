"""Seconds of attention that pairs all tokens of a row under a mask, worked out by hand."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.workloads import H100
from tuner.dtypes import DType
from tuner.timing import assumptions as assume
from tuner.timing import step_time
from tuner.timing.layer import attention_seconds, average_layer
from tuner.timing.rates import copy_bytes_per_s
from tuner.timing.row_attention import PairedRows, row_attention_seconds
from tuner.timing.spreads import SpreadFamily
from tuner.timing.uncertainty import phase_interval
from tuner.workload import Attention, Phase, Workload

MODEL = workloads.QWEN25_7B
LAYER = average_layer(MODEL)


def rows(
    tokens: float, row_tokens: float, *, packed: bool = True, key_heads: int = MODEL.heads
) -> PairedRows:
    return PairedRows(
        tokens=tokens, row_tokens=row_tokens, heads=MODEL.heads, key_heads=key_heads, packed=packed
    )


def with_attention(job: Workload, attention: Attention) -> Workload:
    return job.with_actor_engine(attention=attention, reads_positions=False)


def seconds(job: Workload, phase: Phase = Phase.UPDATE_ACTOR) -> float:
    time = step_time(job, concurrent_sequences=256).phase(phase)
    assert time is not None
    return time.seconds


@pytest.mark.parametrize("backward", [False, True])
def test_a_mask_has_twice_the_pairs_at_a_share_of_the_rate(backward: bool) -> None:
    """And in each layer a boolean becomes a number of 16 bits, which is copied in seven rows of eight."""
    flash = attention_seconds(LAYER, 16384, 16384, H100, backward=backward)
    of_mask = 0.0 if backward else 16384**2 * (3 + 6 * 7 / 8) / copy_bytes_per_s(H100)
    masked = row_attention_seconds(LAYER, rows(16384, 16384), H100, DType.BFLOAT16, backward=backward)
    assert masked == pytest.approx(2 * flash / assume.MASKED_ATTENTION_SHARE[backward] + of_mask)


def test_padded_rows_whose_length_is_aligned_are_not_copied() -> None:
    aligned, other = (
        row_attention_seconds(LAYER, rows(8 * length, length, packed=False), H100, DType.BFLOAT16)
        - 2 * attention_seconds(LAYER, 8 * length, length, H100) / assume.MASKED_ATTENTION_SHARE[0]
        for length in (4096, 4097)
    )
    assert aligned == pytest.approx(8 * 4096**2 * 3 / copy_bytes_per_s(H100))
    assert other == pytest.approx(8 * 4097**2 * 9 / copy_bytes_per_s(H100))


def test_keys_and_values_of_fewer_heads_are_repeated() -> None:
    few, all_heads = (
        row_attention_seconds(LAYER, rows(4096, 4096, key_heads=heads), H100, DType.BFLOAT16)
        for heads in (MODEL.kv_heads, MODEL.heads)
    )
    moved = 2 * 2 * 4096 * MODEL.head_dim * (MODEL.heads + MODEL.kv_heads)
    assert few - all_heads == pytest.approx(moved / copy_bytes_per_s(H100))


def test_a_packed_row_costs_more_with_every_sequence_in_it() -> None:
    """By FlashAttention as many tokens take as long, however many micro-batches they lie in."""
    job = workloads.grpo_7b()
    assert job.actor_update.engine.packed
    flash, causal, masked = (
        seconds(with_attention(job, attention))
        for attention in (Attention.SEQUENCES, Attention.CAUSAL_ROWS, Attention.MASKED_ROWS)
    )
    assert flash < causal < masked


def test_what_kernels_for_masks_reach_is_part_of_the_interval() -> None:
    job = with_attention(workloads.grpo_7b(), Attention.MASKED_ROWS)
    time = step_time(job, concurrent_sequences=256).phase(Phase.UPDATE_ACTOR)
    assert time is not None
    (masked,) = (one for one in time.ranges if one.family is SpreadFamily.MASKED)
    assert masked.low_s < 0 < masked.high_s
    others = tuple(one for one in time.ranges if one.family is not SpreadFamily.MASKED)
    whole, without = (
        phase_interval(replace(time, ranges=ranges), job.cluster) for ranges in (time.ranges, others)
    )
    assert whole.low_s < without.low_s and whole.high_s > without.high_s
