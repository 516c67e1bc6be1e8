"""Seconds of attention that pairs all tokens of a row under a mask, worked out by hand."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.workloads import H100
from tuner import batching
from tuner.dtypes import DType
from tuner.gpus import find_gpu
from tuner.timing import assumptions as assume
from tuner.timing import step_time
from tuner.timing.layer import attention_seconds, average_layer
from tuner.timing.mask_kernels import MaskKernel, mask_kernel, prefers_cudnn
from tuner.timing.rates import copy_bytes_per_s
from tuner.timing.row_attention import PairedRows, row_attention_seconds
from tuner.timing.spreads import SpreadFamily
from tuner.timing.uncertainty import phase_interval
from tuner.workload import Attention, Phase, Workload

MODEL = workloads.QWEN25_7B
LAYER = average_layer(MODEL)
EFFICIENT, CUDNN = (
    mask_kernel(H100, torch, head_dim=128, dtype=DType.BFLOAT16) for torch in ("2.8.0", "2.11.0")
)


def rows(
    tokens: float, row_tokens: float, *, packed: bool = True, key_heads: int = MODEL.heads
) -> PairedRows:
    return PairedRows(
        tokens=tokens, row_tokens=row_tokens, heads=MODEL.heads, key_heads=key_heads, packed=packed
    )


def with_attention(job: Workload, attention: Attention, torch: str = "") -> Workload:
    return job.with_actor_engine(attention=attention, reads_positions=False, torch=torch)


def seconds(job: Workload, phase: Phase = Phase.UPDATE_ACTOR) -> float:
    time = step_time(job, concurrent_sequences=256).phase(phase)
    assert time is not None
    return time.seconds


@pytest.mark.parametrize(
    ("kernel", "share", "moved"),
    [
        (EFFICIENT, assume.MEMORY_EFFICIENT_SHARE, 3 + 6 * 7 / 8),  # copied in seven rows of eight
        (CUDNN, assume.CUDNN_MASKED_SHARE, 3),
    ],
)
@pytest.mark.parametrize("backward", [False, True])
def test_a_mask_has_twice_the_pairs_at_a_share_of_the_rate(
    kernel: MaskKernel, share: tuple[float, float], moved: float, backward: bool
) -> None:
    """And in each layer a boolean becomes a number of 16 bits."""
    flash = attention_seconds(LAYER, 16384, 16384, H100, backward=backward)
    of_mask = 0.0 if backward else 16384**2 * moved / copy_bytes_per_s(H100)
    masked = row_attention_seconds(LAYER, rows(16384, 16384), H100, DType.BFLOAT16, kernel, backward=backward)
    assert masked == pytest.approx(2 * flash / share[backward] + of_mask)


def test_padded_rows_whose_length_is_aligned_are_not_copied() -> None:
    aligned, other = (
        row_attention_seconds(LAYER, rows(8 * length, length, packed=False), H100, DType.BFLOAT16, EFFICIENT)
        - 2 * attention_seconds(LAYER, 8 * length, length, H100) / assume.MEMORY_EFFICIENT_SHARE[0]
        for length in (4096, 4097)
    )
    assert aligned == pytest.approx(8 * 4096**2 * 3 / copy_bytes_per_s(H100))
    assert other == pytest.approx(8 * 4097**2 * 9 / copy_bytes_per_s(H100))


def test_keys_and_values_of_fewer_heads_are_repeated() -> None:
    few, all_heads = (
        row_attention_seconds(LAYER, rows(4096, 4096, key_heads=heads), H100, DType.BFLOAT16, EFFICIENT)
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


@pytest.mark.parametrize(
    ("gpu", "torch", "prefers"),
    [
        ("h100-sxm", "2.5", None),
        ("h100-sxm", "2.5.1", False),
        ("h100-sxm", "2.8.0", False),
        ("h200-sxm", "2.9.1", None),  # by the cuDNN that it was built with
        ("h200-sxm", "2.10.0", None),  # by the CUDA that it is for
        ("h200-sxm", "2.10.0+cu128", False),
        ("h200-sxm", "2.10.0+cu130", True),
        ("h200-sxm", "2.11.0", True),
        ("b200", "2.11.0+cu130", True),
        ("b200", "2.11.0+cu126", None),
        ("h200-sxm", "", None),
        ("a100-sxm-80g", "2.11.0", False),
        ("a100-sxm-80g", "", False),
        ("l40s", "2.14.0", False),
    ],
)
def test_cudnn_comes_first_from_torch_2_11_on_on_hopper_and_blackwell(
    gpu: str, torch: str, prefers: bool | None
) -> None:
    card = find_gpu(gpu)
    assert prefers_cudnn(card, torch, head_dim=128, dtype=DType.BFLOAT16) is prefers


def test_cudnn_takes_no_numbers_of_32_bits_and_older_ones_no_wide_heads() -> None:
    assert prefers_cudnn(H100, "2.11.0", head_dim=128, dtype=DType.FLOAT32) is False
    assert prefers_cudnn(H100, "2.11.0", head_dim=256, dtype=DType.BFLOAT16) is None
    assert prefers_cudnn(H100, "2.10.0+cu130", head_dim=256, dtype=DType.BFLOAT16) is False


def test_where_the_kernel_is_not_known_the_interval_spans_both() -> None:
    open_ = mask_kernel(H100, "", head_dim=128, dtype=DType.BFLOAT16)
    for direction in (0, 1):
        assert open_.slowest[direction] == EFFICIENT.slowest[direction]
        assert open_.fastest[direction] == CUDNN.fastest[direction]
        seconds_of = [1 / kernel.typical[direction] for kernel in (EFFICIENT, CUDNN, open_)]
        assert seconds_of[2] == pytest.approx((seconds_of[0] + seconds_of[1]) / 2)


def test_a_newer_torch_makes_the_same_job_shorter() -> None:
    job = workloads.grpo_7b()
    older, unknown, newer = (
        seconds(with_attention(job, Attention.MASKED_ROWS, torch)) for torch in ("2.8.0", "", "2.11.0")
    )
    assert newer < unknown < older


def test_cards_that_were_not_measured_have_the_published_share() -> None:
    for name in ("a100-sxm-80g", "h20"):
        kernel = mask_kernel(find_gpu(name), "2.8.0", head_dim=128, dtype=DType.BFLOAT16)
        assert kernel.typical == assume.MASKED_ATTENTION_SHARE
    assert (
        mask_kernel(find_gpu("b200"), "2.11.0", head_dim=128, dtype=DType.BFLOAT16).slowest[1] < 0.3
    )  # nobody measured it there


def test_a_causal_row_that_reaches_an_idle_window_has_all_pairs() -> None:
    """Its mask is of numbers from the start: 7 in 8 of such rows are copied, and none is made of booleans."""
    job = with_attention(workloads.grpo_7b(), Attention.CAUSAL_ROWS, "2.8.0")
    row = int(batching.micro_batch_tokens(job.batch, job.actor_update))
    causal, short, dense, masked = (
        with_attention(job, attention, "2.8.0").with_actor_engine(dense_rows=window)
        for attention, window in (
            (Attention.CAUSAL_ROWS, None),
            (Attention.CAUSAL_ROWS, 10 * row),
            (Attention.CAUSAL_ROWS, 1024),
            (Attention.MASKED_ROWS, None),
        )
    )
    assert seconds(causal) == seconds(short) < seconds(dense) < seconds(masked)
    of_numbers = replace(rows(4096, 4096), of_booleans=False)
    made, there = (
        row_attention_seconds(LAYER, one, H100, DType.BFLOAT16, EFFICIENT)
        for one in (rows(4096, 4096), of_numbers)
    )
    assert made - there == pytest.approx(3 * 4096**2 / copy_bytes_per_s(H100))
