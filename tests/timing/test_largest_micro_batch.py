"""The largest micro-batch that a budget of tokens forms: a full one, an expected one, and what verl makes."""

import heapq
from itertools import pairwise
from math import ceil
from random import Random
from statistics import fmean

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.batching import micro_batch_tokens, micro_batches
from tuner.timing import largest_micro_batch_tokens
from tuner.timing.dealing import arrival_means
from tuner.timing.responses import response_lengths
from tuner.timing.tokens import micro_batches_of
from tuner.workload import Batch, Lengths, StepPass, Workload

GRPO = workloads.grpo_7b()
ONE_RANK = GRPO.with_actor_engine(parallel=replace(GRPO.actor.engine.parallel, gpus=1, shard=1))
BUDGETS = (3_000, 4_096, 8_192, 12_800, 16_384, 40_960, 200_000)
MEANS = (64, 400, 688, 1_000, 2_048)
ROWS = (1, 3, 8, 32, 100)


def job(budget: int, response: int = 688, sequences: int = 32, **changes: object) -> Workload:
    """A job of one rank whose mini-batch is its step, with prompts of 279 tokens."""
    update = ONE_RANK.actor.update
    batching = replace(update.batching, dynamic=True, token_budget=budget)
    return ONE_RANK.with_actor(update=replace(update, batching=batching)).with_batch(
        prompts=sequences,
        mini_batch_prompts=sequences,
        responses_per_prompt=1,
        max_prompt_tokens=512,
        max_response_tokens=2_048,
        lengths=Lengths(mean_prompt=279, mean_response=response),
        **changes,
    )


def both(workload: Workload) -> tuple[int, int]:
    """Tokens of the largest micro-batch: expected, and of a full one."""
    batch, update = workload.batch, workload.actor_update
    return largest_micro_batch_tokens(batch, update), micro_batch_tokens(batch, update)


@pytest.mark.parametrize("budget", BUDGETS)
def test_no_micro_batch_is_above_its_budget_but_of_one_longer_sequence(budget: int) -> None:
    for response in MEANS:
        for sequences in ROWS:
            expected, full = both(job(budget, response, sequences))
            assert 0 < expected <= full <= max(budget, 512 + 2_048)


@pytest.mark.parametrize("response", MEANS)
def test_both_grow_with_the_budget(response: int) -> None:
    for sequences in ROWS:
        sizes = [both(job(budget, response, sequences)) for budget in BUDGETS]
        assert sorted(sizes) == sizes
        assert [full for _, full in sizes] == sorted(full for _, full in sizes)


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_full_one_grows_with_the_rows_of_a_rank_and_with_lengths(budget: int) -> None:
    of_rows = [both(job(budget, sequences=sequences))[1] for sequences in range(1, 60)]
    assert of_rows == sorted(of_rows)
    of_lengths = []
    for longest in range(256, 4_097, 256):
        workload = job(budget).with_batch(max_response_tokens=longest)
        of_lengths.append(micro_batch_tokens(workload.batch, workload.actor_update))
    assert of_lengths == sorted(of_lengths)


@pytest.mark.parametrize("budget", BUDGETS)
def test_an_expected_one_grows_with_tokens_until_they_need_another(budget: int) -> None:
    """As in verl: 12,800 tokens fill a budget of 12,800, and 12,801 make two halves of it."""
    of_count: dict[int, list[int]] = {}
    for response in range(64, 2_048, 32):
        workload = job(budget, response)
        count = micro_batches(
            workload.batch, workload.actor_update, sequence_tokens=workload.batch.mean_sequence_tokens
        )
        of_count.setdefault(count, []).append(both(workload)[0])
    assert all(sizes == sorted(sizes) for sizes in of_count.values())
    ends = [(sizes[0], sizes[-1]) for _, sizes in sorted(of_count.items())]
    if budget > 2 * (512 + 2_048):  # else the longest sequence decides
        assert all(before[1] > after[0] for before, after in pairwise(ends))


def test_the_tokens_of_the_documented_run() -> None:
    """Three micro-batches of 967 x 32 tokens, of a budget that would hold them in 2.4."""
    expected, full = both(job(12_800))
    assert (expected, full) == (ceil(967 * 32 / 3), 12_800)


def test_static_and_padded_micro_batches_are_what_they_must_have_room_for() -> None:
    static = ONE_RANK.with_actor(update=workloads.static(4))
    padded = job(12_800).with_actor_engine(packed=False)
    for workload in (static, padded):
        expected, full = both(workload)
        assert expected == full


def fixed(workload: Workload) -> int:
    return largest_micro_batch_tokens(workload.batch, workload.actor_update, counts_sequences=True)


@pytest.mark.parametrize("sequences", [1, 4, 16, 64])
def test_a_run_s_micro_batches_of_sequences_have_those_that_ended_last(sequences: int) -> None:
    """The last ones of a step by arrival, the longest of as many parts; the means of all where it is one."""
    static = job(1, sequences=64).with_actor(update=workloads.static(sequences))
    arriving = static.with_batch(ordered_by_arrival=True)
    expected, means = fixed(arriving), arrival_means(static.batch, 64 // sequences)
    assert expected == ceil(sequences * means[-1])
    assert both(arriving)[0] == both(arriving)[1] == sequences * (512 + 2_048)  # what a job is judged by
    assert sequences * 967 < expected < sequences * (512 + 2_048) or sequences == 64
    assert sequences * 967 * 0.95 < fixed(static) <= sequences * (512 + 2_048)
    ordered = static.with_batch(sorted_ranks=True)
    assert fixed(ordered) == pytest.approx(expected, rel=0.25)
    assert fixed(static.with_batch(balanced=False)) >= 967 * sequences * 0.99


def test_padded_micro_batches_of_a_run_have_what_they_must_have_room_for() -> None:
    padded = job(1).with_actor(update=workloads.static(4)).with_actor_engine(packed=False)
    assert fixed(padded) == both(padded)[1]


def partition(weights: list[int], parts: int) -> list[list[int]]:
    """Indices by largest differencing, as verl's ``karmarkar_karp`` merges them."""
    heap: list[tuple[int, int, list[tuple[int, list[int]]]]] = []
    for index, weight in enumerate(weights):
        sets = sorted([(weight, [index])] + [(0, [])] * (parts - 1), key=lambda one: -one[0])
        heapq.heappush(heap, (-weight, index, sets))
    while len(heap) > 1:
        _, number, first = heapq.heappop(heap)
        _, _, second = heapq.heappop(heap)
        merged = [(a + b, left + right) for (a, left), (b, right) in zip(first, second[::-1], strict=True)]
        merged.sort(key=lambda one: -one[0])
        heapq.heappush(heap, (merged[-1][0] - merged[0][0], number, merged))
    return [indices for _, indices in heap[0][2]]


def drawn(batch: Batch, random: Random) -> list[int]:
    spread = batch.prompt_spread
    responses = response_lengths(batch, (random.random() for _ in range(batch.sequences)))
    return [round(one + batch.mean_prompt_tokens + random.uniform(-spread, spread)) for one in responses]


@pytest.mark.parametrize(("budget", "sequences"), [(12_800, 32), (8_192, 64), (20_480, 64), (6_000, 16)])
def test_the_partition_of_drawn_lengths_has_as_many_tokens(budget: int, sequences: int) -> None:
    """What is said of the tokens that a rank has, whatever these happen to be."""
    workload, random = job(budget, sequences=sequences), Random(3)
    shares = []
    for _ in range(20):
        lengths = drawn(workload.batch, random)
        count = ceil(sum(lengths) / budget)
        parts = partition([24_576 * length + length**2 for length in lengths], count)
        largest = max(sum(lengths[index] for index in part) for part in parts)
        shares.append(largest / (sum(lengths) / count))
    assert fmean(shares) == pytest.approx(1, abs=0.03)


def two_ranks(workload: Workload) -> Workload:
    parallel = workload.actor.engine.parallel
    return workload.with_actor_engine(parallel=replace(parallel, gpus=2, shard=2))


def test_responses_that_end_first_are_in_the_first_mini_batch() -> None:
    """The critic of a recorded run: mini-batches of 22,080 and 46,259 tokens, the latter in two parts."""
    workload = two_ranks(job(32_768, response=773, sequences=128, ordered_by_arrival=True))
    workload = workload.with_batch(mini_batch_prompts=64, lengths=Lengths(mean_prompt=275, mean_response=773))
    first, second = (32 * mean for mean in arrival_means(workload.batch, 2))
    assert first == pytest.approx(22_080, rel=0.1)
    assert second == pytest.approx(46_259, rel=0.1)
    expected, full = both(workload)
    assert expected == pytest.approx(23_129, rel=0.01)
    assert full == 32_768


def test_mini_batches_by_arrival_hold_all_tokens_and_are_alike_on_all_ranks() -> None:
    workload = two_ranks(job(8_192, sequences=128)).with_batch(mini_batch_prompts=64)
    arriving = workload.with_batch(ordered_by_arrival=True)
    for parts in (1, 2, 16):
        means = arrival_means(workload.batch, parts)
        assert list(means) == sorted(means)
        assert fmean(means) == pytest.approx(workload.batch.mean_sequence_tokens, rel=0.03)
    tokens = [_tokens(one.batch, one.actor_update) for one in (arriving, workload)]
    assert tokens[0] == pytest.approx(32 * 967)
    assert tokens[0] < tokens[1]


def _tokens(batch: Batch, step_pass: StepPass) -> float:
    micro = micro_batches_of(batch, step_pass)
    return micro.count * micro.tokens
