"""Which tensors can have the size of a failed allocation, and with how many tokens, by small numbers."""

import pytest
from msgspec.structs import replace

from tests.memory.test_services import scored
from tests.workloads import grpo_7b, grpo_lora_7b, ppo_7b
from tuner.memory.failed_allocation.explanation import (
    Confidence,
    FailedAllocation,
    Match,
    match,
    matches,
    parse_failed_allocation,
    requested_bytes,
)
from tuner.memory.failed_allocation.tensor import Tensor
from tuner.memory.failed_allocation.tensors import tensors
from tuner.memory.ledger.terms import Item
from tuner.units import MIB
from tuner.workload import Workload


def tensor(full: int | None, *, name: str = "x", unit: int = 10, quadratic: bool = False) -> Tensor:
    """Ten bytes for each token."""
    return Tensor(
        name=name,
        kinds=("x",),
        made_by="x",
        item=Item.LOGITS,
        factors=((unit, "entries"),),
        dtype_bytes=1,
        tokens=full,
        quadratic=quadratic,
    )


def failed(low: int, high: int, size: int) -> FailedAllocation:
    return FailedAllocation(text="", bytes=size, low_bytes=low, high_bytes=high)


#: Ten tokens are at least 95 bytes, twelve at most 124; the figure is 110, eleven.
SIZE = failed(95, 124, 110)


def found(full: int | None, size: FailedAllocation = SIZE, *, quadratic: bool = False) -> Match:
    result = match(tensor(full, quadratic=quadratic), size)
    assert result is not None
    return result


# -- what was asked for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 100, (1, 100)),  # no block of 2 MiB, and at least a byte
        (3 * MIB, 3 * MIB + 100, (3 * MIB, 3 * MIB + 100)),
        (2 * MIB, 2 * MIB, (1, MIB)),  # of small tensors all have one block
        (2 * MIB - 1, 4 * MIB, (1, 4 * MIB)),
        (20 * MIB, 20 * MIB, (MIB + 1, 20 * MIB)),  # and so have those below 10 MiB
        (18 * MIB, 21 * MIB, (MIB + 1, 20 * MIB)),
        (22 * MIB, 22 * MIB, (20 * MIB + 1, 22 * MIB)),
        (23 * MIB, 27 * MIB, (22 * MIB + 1, 26 * MIB)),
    ],
)
def test_a_block_may_hold_tensors_that_are_smaller(low: int, high: int, expected: tuple[int, int]) -> None:
    assert requested_bytes(low, high) == expected


def test_a_figure_stands_for_all_that_is_rounded_to_it() -> None:
    """1.01 MiB are 1,059,061.76 bytes, and half a hundredth of it 5,242.88."""
    size = parse_failed_allocation("1.01 MiB")
    assert (size.low_bytes, size.bytes, size.high_bytes) == (1_053_819, 1_059_062, 1_064_304)


# -- how many tokens -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("full", "confidence", "tokens"),
    [
        (5, Confidence.OVERFULL, 11),
        (1, Confidence.OVERFULL, 11),
        (9, Confidence.OVERFULL, 11),
        (10, Confidence.EXACT, 10),
        (12, Confidence.EXACT, 12),
        (13, Confidence.LIKELY, 11),
        (21, Confidence.LIKELY, 11),  # 11 are more than half of it
        (22, Confidence.POSSIBLE, 11),
        (0, Confidence.LIKELY, 11),  # of no known micro-batch
    ],
)
def test_how_full_a_micro_batch_says_how_much_a_match_does(
    full: int, confidence: Confidence, tokens: int
) -> None:
    result = found(full)
    assert (result.confidence, result.tokens) == (confidence, tokens)
    assert (result.low_tokens, result.high_tokens) == (10, 12)
    assert result.claimed is (confidence in (Confidence.EXACT, Confidence.LIKELY))


@pytest.mark.parametrize(
    ("full", "confidence"),
    [
        (3, Confidence.TOO_LONG),
        (5, Confidence.EXACT),
        (7, Confidence.POSSIBLE),  # some sequence always fits, however long beside the longest
        (100, Confidence.POSSIBLE),
    ],
)
def test_a_square_of_tokens(full: int, confidence: Confidence) -> None:
    """17 pairs at least are five tokens, 36 at most six; 25 are the figure."""
    result = found(full, failed(161, 360, 250), quadratic=True)
    assert (result.confidence, result.tokens) == (confidence, 5)
    assert (result.low_tokens, result.high_tokens) == (5, 6)


def test_a_square_that_is_the_least_is_counted() -> None:
    """16 pairs are four tokens."""
    result = found(100, failed(160, 360, 250), quadratic=True)
    assert (result.low_tokens, result.tokens, result.high_tokens) == (4, 5, 6)


def test_a_size_between_two_numbers_of_tokens_is_none() -> None:
    assert match(tensor(100), failed(91, 99, 95)) is None
    assert found(100, failed(91, 100, 95)).tokens == 10


def test_the_tokens_lie_within_the_interval() -> None:
    assert found(100, failed(95, 124, 150)).tokens == 12  # rounded down to a whole block
    assert found(100, failed(92, 101, 92)).tokens == 10  # 9.2 tokens are ten at least


def test_a_tensor_without_tokens_has_the_size_or_not() -> None:
    def has(unit: int) -> bool:
        return match(tensor(None, unit=unit), SIZE) is not None

    assert [has(unit) for unit in (94, 95, 124, 125)] == [False, True, True, False]
    assert found_alone(95).confidence is Confidence.EXACT


def found_alone(unit: int) -> Match:
    result = match(tensor(None, unit=unit), SIZE)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("low", "high", "tokens"),
    [
        (1025, 2047, 1500),  # none is round: the nearest
        (1024, 2047, 1024),
        (1000, 5000, 4096),  # the roundest of four
        (4096, 5120, 4096),
        (4097, 5120, 5120),
        (5000, 7000, 6144),
        (3000, 3072, 3072),
        (2048, 2048, 2048),
    ],
)
def test_the_roundest_number_of_tokens_is_named(low: int, high: int, tokens: int) -> None:
    size = failed(10 * low, 10 * high, 15_000 if low == 1025 else 10 * high)
    assert found(100_000, size).tokens == tokens


# -- which first ---------------------------------------------------------------------------------


def test_matches_come_by_confidence_and_then_by_how_near_to_full_they_are() -> None:
    """Eleven tokens are 0.69 of 16, 0.55 of 20, 0.37 of 30; 1.2 of 9, 1.6 of 7, 2.2 of 5."""
    fulls = (5, 7, 30, 20, 0, 9, 100, 16, 11)
    some = [tensor(full, name=str(full)) for full in fulls]
    some.insert(3, tensor(None, unit=110, name="whole"))
    order = [one.tensor.name for one in matches(SIZE, some)]
    assert order == ["11", "whole", "16", "20", "0", "30", "100", "9", "7", "5"]


# -- whose states are looked at --------------------------------------------------------------------


def roles(workload: Workload) -> set[str]:
    """Those of whose weights a layer is gathered."""
    ending = "_layer_gathered"
    return {one.name[: -len(ending)] for one in tensors(workload) if one.name.endswith(ending)}


def test_the_states_of_every_model_of_a_job_are_among_its_tensors() -> None:
    assert roles(grpo_7b()) == {"actor", "reference"}
    assert roles(replace(grpo_7b(), reference=None)) == {"actor"}
    assert roles(grpo_lora_7b()) == {"actor"}  # whose reference is the actor itself
    assert roles(ppo_7b()) == {"actor", "reference", "critic"}
    judged = replace(grpo_7b(), services=(scored(),))
    assert roles(judged) == {"actor", "reference", "reward model"}


def test_a_job_that_generates_nothing_syncs_nothing() -> None:
    def synced(workload: Workload) -> set[str]:
        return {one.name for one in tensors(workload)} & {"sync_bucket", "sampler_logits"}

    assert synced(grpo_7b()) == {"sync_bucket", "sampler_logits"}
    assert synced(replace(grpo_7b(), rollout=None)) == set()
