"""Up to which value of a setting a job fits."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner import memory
from tuner.memory.fitting.limits import values_that_fit
from tuner.workload import Checkpointing, Quantity, Workload

CLOSE = 1.02


def _response(workload: Workload, tokens: int) -> Workload:
    return workload.with_batch(max_response_tokens=tokens)


def _budget(workload: Workload, tokens: int) -> Workload:
    def changed(one: object) -> object:
        return replace(one, batching=replace(one.batching, token_budget=tokens))  # type: ignore[attr-defined, type-var]

    actor, reference = workload.actor, workload.reference
    assert reference is not None
    return workload.with_actor(update=changed(actor.update), log_prob=changed(actor.log_prob)).with_reference(
        log_prob=changed(reference.log_prob)
    )


def _static(workload: Workload) -> Workload:
    static = workloads.static(4)
    return workload.with_actor(update=static, log_prob=static).with_reference(log_prob=static)


@pytest.mark.parametrize(
    ("quantity", "change"), [(Quantity.MAX_RESPONSE_TOKENS, _response), (Quantity.TOKEN_BUDGET, _budget)]
)
def test_the_largest_value_fits_and_one_step_more_does_not(
    quantity: Quantity, change: Callable[[Workload, int], Workload]
) -> None:
    workload = workloads.grpo_7b()
    if quantity is Quantity.MAX_RESPONSE_TOKENS:
        workload = _static(workload)
    found = values_that_fit(workload, quantity)
    assert found.low == 1 and found.high is not None and found.high < found.most
    largest = int(found.high)
    assert memory.estimate(change(workload, largest)).fits_for_certain()
    more = int(largest * CLOSE) + 1
    assert not memory.estimate(change(workload, more)).fits_for_certain()


def test_a_job_that_does_not_fit_is_asked_how_far_it_would() -> None:
    workload = _budget(workloads.grpo_7b(), 400_000)
    assert not memory.estimate(workload).fits()
    found = values_that_fit(workload, Quantity.TOKEN_BUDGET)
    assert found.high is not None and 16_384 < found.high < 400_000
    assert memory.estimate(_budget(workload, int(found.high))).fits()


def test_a_job_that_fits_is_never_told_a_limit_below_its_own_value() -> None:
    """However little room there is above it."""
    workload = _static(workloads.grpo_7b())
    found = values_that_fit(workload, Quantity.MAX_RESPONSE_TOKENS)
    assert found.high is not None
    tight = _response(workload, int(found.high))
    again = values_that_fit(tight, Quantity.MAX_RESPONSE_TOKENS)
    assert again.high is not None and again.high >= found.high


def test_no_value_helps_where_states_alone_are_too_large() -> None:
    workload = workloads.grpo_7b(gpus_per_node=1)
    found = values_that_fit(workload, Quantity.TOKEN_BUDGET)
    assert (found.low, found.high) == (None, None)


def test_the_fraction_is_a_range_with_two_ends() -> None:
    workload = workloads.grpo_7b()
    found = values_that_fit(workload, Quantity.MEMORY_FRACTION)
    assert found.low is not None and found.high is not None and 0 < found.low < found.high < 0.95
    for share, fits in ((found.low, True), (found.high, True), (found.low - 0.05, False)):
        estimate = memory.estimate(workload.with_rollout(memory_fraction=share))
        assert estimate.fits_for_certain() is fits
    assert not memory.estimate(workload.with_rollout(memory_fraction=found.high + 0.05)).fits_for_certain()


def test_a_switch_is_tried_both_ways() -> None:
    workload = _budget(workloads.grpo_7b(), 65_536)
    found = values_that_fit(workload, Quantity.CHECKPOINTING)
    assert (found.low, found.high) == (1.0, 1.0)
    off = workload.with_actor_engine(checkpointing=Checkpointing.NONE)
    assert not memory.estimate(off).fits_for_certain()
    either = values_that_fit(workload, Quantity.PARAM_OFFLOAD)
    assert (either.low, either.high) == (0.0, 1.0)
