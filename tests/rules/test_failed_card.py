"""What was on a card when an allocation failed, by a message whose numbers are given."""

from types import SimpleNamespace
from typing import Any

import pytest

from tuner.advise.card import CardUse, card_of
from tuner.memory.failed_allocation.explanation import FailedAllocation
from tuner.out_of_memory.allocator import AllocatorMessage, Process
from tuner.units import GIB

CARD = 80 * GIB


def failed(low: int = GIB, **said: int) -> FailedAllocation:
    return FailedAllocation(text="", bytes=low, low_bytes=low, high_bytes=low, **said)


def message(**said: Any) -> AllocatorMessage:
    """Of 80 GiB 5 are free, 60 in tensors and 10 held back: five are beside the allocator."""
    usual = {
        "total_bytes": CARD,
        "free_bytes": 5 * GIB,
        "allocated_bytes": 60 * GIB,
        "unused_bytes": 10 * GIB,
    }
    return AllocatorMessage(requested=None, **{**usual, **said})


def phase(*, tensors: int = 60 * GIB, beside: int = 2 * GIB) -> Any:
    """What the model has: of the allocator, and in two terms beside it."""
    terms = [
        SimpleNamespace(bytes=size, of_allocator=own)
        for size, own in ((tensors, True), (beside - GIB, False), (GIB, False))
    ]
    return SimpleNamespace(allocated_bytes=tensors, peak=SimpleNamespace(terms=terms))


def card(
    said: AllocatorMessage | None = None,
    *,
    of: FailedAllocation | None = None,
    modelled: Any = None,
    capacity: int | None = CARD,
) -> CardUse:
    found = card_of(said or message(), of or failed(), modelled, capacity=capacity)
    assert found is not None
    return found


def test_a_message_without_figures_says_nothing_of_the_card() -> None:
    assert card_of(None, failed(), None, capacity=CARD) is None
    assert card_of(message(), None, None, capacity=CARD) is None
    assert card_of(message(free_bytes=None, allocated_bytes=None), failed(), None, capacity=CARD) is None
    assert card(message(free_bytes=None)).tensor_bytes == 60 * GIB
    assert card(message(allocated_bytes=None)).free_bytes == 5 * GIB


def test_what_is_neither_free_nor_the_allocators_is_beside_it() -> None:
    assert card().beside_bytes == 5 * GIB
    assert card(message(unused_bytes=None)).beside_bytes == 15 * GIB
    assert card(message(free_bytes=30 * GIB)).beside_bytes == 0  # never less
    for lacking in ("total_bytes", "free_bytes", "allocated_bytes"):
        assert card(message(**{lacking: None})).beside_bytes is None


def test_what_the_model_has_beside_the_allocator() -> None:
    found = card(modelled=phase())
    assert (found.modelled_tensor_bytes, found.modelled_beside_bytes) == (60 * GIB, 2 * GIB)
    assert (card().modelled_tensor_bytes, card().modelled_beside_bytes) == (None, None)


@pytest.mark.parametrize(
    ("modelled", "strange"),
    [
        (phase(beside=2 * GIB), None),  # three more than it has is what contexts vary by
        (phase(beside=2 * GIB - 1), 3 * GIB + 1),
        (phase(beside=9 * GIB), None),
        (None, None),
    ],
)
def test_more_beside_the_allocator_than_the_model_has_is_strange(modelled: Any, strange: int | None) -> None:
    assert card(modelled=modelled).strange_bytes == strange


@pytest.mark.parametrize(
    ("tensors", "asked", "fuller"),
    [
        (100, 11, True),  # 111 are more than 1.1 times 100
        (100, 10, False),
        (90, 20, False),
        (None, 50, False),
    ],
)
def test_more_in_tensors_than_the_model_has_is_fuller(tensors: int | None, asked: int, fuller: bool) -> None:
    assert (
        card(message(allocated_bytes=tensors), of=failed(asked), modelled=phase(tensors=100)).fuller is fuller
    )
    assert not card(message(allocated_bytes=tensors), of=failed(asked)).fuller


@pytest.mark.parametrize(
    ("total", "capacity", "other"),
    [
        (1_040, 1_000, False),  # cards of one kind differ by a twenty-fifth
        (1_041, 1_000, True),
        (960, 1_000, False),
        (959, 1_000, True),
        (1_042, 1_001, False),  # 40.04, rounded up
        (None, 1_000, False),
        (1_041, None, False),
    ],
)
def test_a_card_of_another_size(total: int | None, capacity: int | None, other: bool) -> None:
    assert card(message(total_bytes=total), capacity=capacity).other_card is other


@pytest.mark.parametrize(("tensors", "asked", "fuller"), [(0, 1, False), (1, 1, True)])
def test_a_model_that_has_nothing_there_has_a_byte(tensors: int, asked: int, fuller: bool) -> None:
    found = card(message(allocated_bytes=tensors), of=failed(asked), modelled=phase(tensors=0))
    assert found.fuller is fuller


def test_fragments_are_told_from_the_figures() -> None:
    assert card(of=failed(10, free_bytes=4, unused_bytes=6)).fragmented
    assert not card(of=failed(10, free_bytes=4, unused_bytes=5)).fragmented


def test_processes_beside_the_one_that_failed() -> None:
    """It holds 70 GiB of its allocator's, and up to eight beside them."""

    def named(*sizes: float, **said: Any) -> list[float]:
        processes = tuple(Process(number=7, bytes=round(size * GIB)) for size in sizes)
        return [process.bytes / GIB for process in card(message(processes=processes, **said)).others]

    assert named() == []
    assert named(1, 75, 3) == [3, 1]
    assert named(78, 77.5, 2) == [78, 2]  # of two that it may be the smaller; 78 x 1.001 is beyond
    assert named(77, 75) == [77]
    assert named(78, 2) == [78, 2]
    assert named(90, 2) == [90, 2]  # none of them
    assert named(69.95, 2) == [2]  # as rounded
    assert named(69.875, 2) == [69.875, 2]
    assert named(1, 75, own_bytes=70 * GIB) == [75, 1]  # which it is, the message knows
    assert named(4, 9, allocated_bytes=None, unused_bytes=None) == [9]
    assert named(65, 2, unused_bytes=None) == [2]
