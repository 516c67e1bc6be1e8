"""Rates of the data sheet and measured ones."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.workloads import H200, grpo_7b
from tuner.dtypes import DType
from tuner.hardware import Gpu, MeasuredGpu
from tuner.memory import rollout_memory
from tuner.timing import StepTime, rates, step_time
from tuner.timing import assumptions as assume
from tuner.timing.corrections import OperatorFamily
from tuner.workload import Phase

RATES: dict[str, Callable[[Gpu], float]] = {
    "bf16": lambda gpu: rates.product_flop_per_s(gpu, DType.BFLOAT16),
    "fp32": lambda gpu: rates.product_flop_per_s(gpu, DType.FLOAT32),
    "attention": rates.attention_flop_per_s,
    "copy": rates.copy_bytes_per_s,
    "decode": rates.decode_bytes_per_s,
    "link": rates.link_bytes_per_s,
    "pinned": rates.pinned_bytes_per_s,
}
# The operation that is measured reaches this share of the peak.
REFERENCE = {
    "dense_bf16_flop_per_s": assume.LARGE_PRODUCT_SHARE,
    "memory_bytes_per_s": assume.MEMORY_SHARE,
    "link_bytes_per_s": assume.LINK_SHARE,
    "host_bytes_per_s": assume.PINNED_SHARE,
}


def measured(factor: float) -> Gpu:
    """The card, whose every measured rate is ``factor`` times the one that was assumed."""
    reached = {name: factor * share * getattr(H200, name) for name, share in REFERENCE.items()}
    return replace(H200, measured=MeasuredGpu(date="", versions=(), **reached))


@given(factor=st.floats(0.1, 2.0))
def test_every_rate_follows_what_was_measured(factor: float) -> None:
    gpu = measured(factor)
    for name, rate in RATES.items():
        assert rate(gpu) == pytest.approx(factor * rate(H200)), name


def test_what_was_not_measured_is_the_data_sheets() -> None:
    nothing = replace(H200, measured=MeasuredGpu(date="", versions=()))
    assert all(rate(nothing) == rate(H200) for rate in RATES.values())
    half = measured(0.5)
    fp8 = rates.product_flop_per_s(half, DType.FLOAT8)
    assert fp8 == rates.product_flop_per_s(H200, DType.FLOAT8)


def test_pageable_copies_are_never_faster_than_page_locked_ones() -> None:
    assert rates.pageable_bytes_per_s(measured(1.0)) == rates.pageable_bytes_per_s(H200)
    slow = measured(0.01)
    assert rates.pageable_bytes_per_s(slow) == rates.pinned_bytes_per_s(slow)


def test_a_step_on_a_card_as_assumed_takes_as_long() -> None:
    def seconds(gpu: Gpu) -> float:
        workload = grpo_7b(gpu=gpu)
        concurrent = rollout_memory(workload).concurrent_sequences
        return step_time(workload, concurrent_sequences=concurrent).seconds

    assert seconds(measured(1.0)) == pytest.approx(seconds(H200))
    assert seconds(measured(0.5)) > 1.3 * seconds(H200)


def timed(gpu: Gpu) -> StepTime:
    return step_time(grpo_7b(gpu=gpu, gpus_per_node=1), concurrent_sequences=64)


SHAPE: dict[str, Any] = {"width": 3584, "rows": 4096}
FAMILIES: list[tuple[OperatorFamily, Callable[[Gpu], float]]] = [
    (OperatorFamily.PRODUCTS, lambda gpu: rates.layer_product_flop_per_s(gpu, DType.BFLOAT16, **SHAPE)),
    (OperatorFamily.PRODUCTS, lambda gpu: rates.grouped_flop_per_s(gpu, DType.BFLOAT16, **SHAPE)),
    (OperatorFamily.ATTENTION, lambda gpu: rates.layer_attention_flop_per_s(gpu, head_dim=128, tokens=4096)),
    (OperatorFamily.ELEMENTWISE, rates.elementwise_bytes_per_s),
    (OperatorFamily.HEAD, lambda gpu: rates.head_product_flop_per_s(gpu, DType.BFLOAT16)),
]


@pytest.mark.parametrize(("family", "rate"), FAMILIES)
def test_a_familys_factor_is_one_of_its_rates(family: OperatorFamily, rate: Callable[[Gpu], float]) -> None:
    for other in (
        OperatorFamily.PRODUCTS,
        OperatorFamily.ATTENTION,
        OperatorFamily.ELEMENTWISE,
        OperatorFamily.HEAD,
    ):
        factor: dict[str, Any] = {other.value: 3.0}
        gpu = replace(H200, measured=MeasuredGpu(date="", versions=(), **factor))
        assert rate(gpu) == pytest.approx((3 if other is family else 1) * rate(H200))


@pytest.mark.parametrize("family", list(OperatorFamily))
def test_a_familys_factor_moves_the_seconds_of_what_does_its_work_alone(family: OperatorFamily) -> None:
    """Operators are of training passes, an engine's steps of the rollout, products and launches of both."""
    moved = {Phase.OLD_LOG_PROB, Phase.REF_LOG_PROB, Phase.UPDATE_ACTOR}
    if family in (OperatorFamily.HOST, OperatorFamily.PRODUCTS):
        moved = {*moved, Phase.ROLLOUT}
    elif family in (OperatorFamily.ENGINE, OperatorFamily.ENGINE_SEQUENCE):
        moved = {Phase.ROLLOUT}

    def corrected(factor: float) -> StepTime:
        return timed(replace(H200, measured=MeasuredGpu(date="", versions=(), **{family.value: factor})))

    same, quick, slow = corrected(1.0), corrected(2.0), corrected(0.1)
    assert same == timed(H200)
    for one, quicker, slower in zip(same.phases, quick.phases, slow.phases, strict=True):
        if one.phase in moved:
            assert quicker.seconds <= one.seconds < slower.seconds, one.phase
        else:
            assert quicker.seconds == one.seconds == slower.seconds, one.phase
