"""Which values a search asks about on its way to a limit, worked out by hand: each costs an estimate."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.workloads import grpo_7b, static
from tuner.memory.fitting.lengths import _GRID, largest_that_fits
from tuner.memory.fitting.limits import _largest, _shares, values_that_fit
from tuner.workload import Quantity


@pytest.mark.parametrize(
    ("over", "largest", "asked"),
    [
        (lambda step: -1, _GRID, [4096]),
        (lambda step: 1, None, [4096, 0]),
        # A line meets 0 at 23.7, which does not halve what is left; the middle does, and 24 is next to 23.
        (lambda step: 10 * step - 237, 23, [4096, 0, 23, 2059, 24]),
        (lambda step: step - 4095, 4095, [4096, 0, 4095]),
        # A curve: guesses of lines that are too steep, and middles between them.
        (
            lambda step: step**2 - 1000,
            31,
            [4096, 0, 1, 2048, 2, 1025, 3, 514, 4, 259, 7, 133, 13, 73, 22, 47, 29, 38, 31, 34, 32],
        ),
        # A step from -5 to 1,000 B: lines that are too flat.
        (
            lambda step: -5 if step < 41 else 1000,
            40,
            [4096, 0, 20, 2058, 30, 1044, 35, 539, 37, 288, 38, 163, 39, 101, 40, 70, 41],
        ),
        # Exactly at the limit no line says where to go, and each middle halves what is left.
        (
            lambda step: 0 if step < 50 else 7,
            49,
            [4096, 0, 2048, 1024, 512, 256, 128, 64, 32, 48, 56, 52, 50, 49],
        ),
        # A guess that halves what is left is followed by another: 2,048 + 2,048 / 4,096.
        (lambda step: 2 * step - 4097, 2048, [4096, 0, 2048, 2049]),
    ],
)
def test_lengths_that_are_asked_about(
    over: Callable[[int], int], largest: int | None, asked: list[int]
) -> None:
    steps: list[int] = []

    def judged(step: int) -> tuple[bool, int]:
        steps.append(step)
        return over(step) <= 0, over(step)

    assert largest_that_fits(judged, _GRID) == largest
    assert steps == asked


@pytest.mark.parametrize(
    ("now", "most", "limit", "largest", "asked"),
    [
        (10, 1000, 1000, 1000, [1000]),
        # Geometric means, until two are within two percent: 300 x 1.02 = 306.
        (10, 1000, 300, 300, [1000, 10, 100, 316, 177, 236, 273, 293, 304, 298, 300]),
        # What is set does not fit; between 5 and 7 the mean is 5 itself, so that 6 is asked about.
        (10, 1000, 5, 5, [1000, 10, 1, 3, 5, 7, 6]),
        (10, 1000, 0, None, [1000, 10, 1]),
        (10, 8, 2, 2, [8, 1, 2, 4, 3]),  # less than what is set is the most
        (10, 10, 4, 4, [10, 1, 3, 5, 4]),
        (1, 3, 1, 1, [3, 1, 1, 2]),  # 1 is what is set
    ],
)
def test_sizes_that_are_asked_about(
    now: int, most: int, limit: int, largest: int | None, asked: list[int]
) -> None:
    sizes: list[float] = []

    def fits(size: float) -> bool:
        sizes.append(size)
        return size <= limit

    assert _largest(now, most, fits) == largest
    assert sizes == asked


@pytest.mark.parametrize(
    ("now", "low", "high", "shares"),
    [
        (0.5, 0.38, 0.62, {0.4, 0.45, 0.5, 0.55, 0.6}),
        (0.52, 0.38, 0.62, {0.4, 0.45, 0.5, 0.52, 0.55, 0.6}),
        (0.2, 0.38, 0.62, {0.4, 0.5, 0.6}),  # every second
        (0.2, 0.0, 1.0, {0.05 * number for number in range(1, 20)}),
        (0.5, 0.6, 0.4, set()),
    ],
)
def test_shares_that_fit(now: float, low: float, high: float, shares: set[float]) -> None:
    found = _shares(now, lambda share: low <= share <= high)
    assert sorted(found) == pytest.approx(sorted(shares))


@pytest.mark.parametrize(
    ("quantity", "most"),
    [
        (Quantity.MAX_PROMPT_TOKENS, 32_768 - 3072),
        (Quantity.MAX_RESPONSE_TOKENS, 32_768 - 1024),
        # 128 prompts of eight responses on eight ranks, 4,096 tokens each.
        (Quantity.MICRO_BATCH_SEQUENCES, 128),
        (Quantity.TOKEN_BUDGET, 128 * 4096),
        (Quantity.MEMORY_FRACTION, 0.95),
        (Quantity.PARAM_OFFLOAD, 1),
    ],
)
def test_the_most_that_is_worth_asking_about(quantity: Quantity, most: float) -> None:
    workload = grpo_7b().with_actor(update=static(2))
    assert values_that_fit(workload, quantity).most == most


def test_ranks_that_share_sequences_have_fewer_tokens() -> None:
    workload = grpo_7b()
    engine = workload.actor.engine
    workload = workload.with_actor_engine(parallel=replace(engine.parallel, ulysses=3, gpus=24, shard=24))
    # Eight groups of three: 128 sequences of 4,096 tokens, a third of which is 174,762.7.
    assert values_that_fit(workload, Quantity.TOKEN_BUDGET).most == 174_763
