"""What the slowest rank is expected to have, against lengths that are drawn and dealt as verl deals them."""

from random import Random
from statistics import fmean

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.timing.dealing import attended_tokens, longest_tokens, slowest_mean, sorted_means
from tuner.timing.responses import response_lengths
from tuner.timing.tokens import micro_batches_of
from tuner.workload import Batch, Lengths, Padding

GRPO = workloads.grpo_7b()
HALVES, SHORT, TAILED = (
    GRPO.with_batch(lengths=lengths, max_prompt_tokens=1024, max_response_tokens=8192).batch
    for lengths in (
        Lengths(),
        Lengths(mean_prompt=155, mean_response=1258),
        Lengths(mean_prompt=100, mean_response=300, response_p95=900),
    )
)


def drawn(batch: Batch, count: int, random: Random) -> list[float]:
    """Lengths of sequences, prompts and responses on their own."""
    responses = response_lengths(batch, (random.random() for _ in range(count)))
    spread = batch.prompt_spread
    return [length + batch.mean_prompt_tokens + random.uniform(-spread, spread) for length in responses]


def balanced(lengths: list[float], ranks: int) -> list[list[float]]:
    """As many sequences and about as many tokens for each rank, in the order in which they came.

    Round by round the longest that are left go to the ranks with the fewest tokens, which comes as near as
    the differencing of verl does.
    """
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    parts: list[list[int]] = [[] for _ in range(ranks)]
    for start in range(0, len(order), ranks):
        parts.sort(key=lambda part: sum(lengths[index] for index in part))
        for part, index in zip(parts, order[start : start + ranks], strict=True):
            part.append(index)
    return [[lengths[index] for index in sorted(part)] for part in parts]


CASES = [
    (HALVES, 8, 4, 0.03),
    (HALVES, 2, 8, 0.03),
    (SHORT, 8, 4, 0.05),
    (SHORT, 16, 8, 0.10),
    (TAILED, 8, 4, 0.12),
]


@pytest.mark.parametrize(("batch", "ranks", "mini_batches", "error"), CASES)
def test_the_slowest_rank_of_a_mini_batch(batch, ranks, mini_batches, error):
    random, of_rank = Random(1), 512 // ranks
    size = of_rank // mini_batches
    slowest, means = [], []
    for _ in range(24):
        lengths = drawn(batch, of_rank * ranks, random)
        parts = balanced(lengths, ranks)
        means.append(fmean(lengths))
        slowest += [
            max(fmean(part[start : start + size]) for part in parts) for start in range(0, of_rank, size)
        ]
    expected = slowest_mean(batch, sequences=size, ranks=ranks, drawn=1 / mini_batches)
    assert expected / batch.mean_sequence_tokens == pytest.approx(fmean(slowest) / fmean(means), rel=error)
    assert fmean(slowest) / fmean(means) > 1 + error  # or the bound would say nothing


@pytest.mark.parametrize("batch", [HALVES, SHORT, TAILED])
def test_the_longest_sequence_and_the_sum_of_squares(batch):
    random = Random(2)
    longest = fmean(max(drawn(batch, 64, random)) for _ in range(200))
    assert longest_tokens(batch, sequences=64) == pytest.approx(longest, rel=0.05)
    lengths = drawn(batch, 20_000, random)
    squares = sum(length**2 for length in lengths) / sum(lengths)
    assert attended_tokens(batch) == pytest.approx(squares, rel=0.1)


def test_longer_responses_never_leave_the_slowest_rank_with_less():
    for sequences, ranks, part in ((1, 8, 0.0), (4, 64, 0.25), (64, 8, 0.1), (512, 2, 0.0)):
        means = [
            slowest_mean(
                replace(SHORT, lengths=Lengths(mean_prompt=155, mean_response=mean)),
                sequences=sequences,
                ranks=ranks,
                drawn=part,
            )
            for mean in range(64, 8193, 127)
        ]
        assert means == sorted(means)


def test_equally_long_sequences_keep_no_rank_waiting():
    even = replace(SHORT, lengths=Lengths(mean_prompt=1024, mean_response=8192, response_p95=8192))
    assert slowest_mean(even, sequences=4, ranks=8) == pytest.approx(1024 + 8192)
    assert slowest_mean(SHORT, sequences=4, ranks=1) == SHORT.mean_sequence_tokens
    assert slowest_mean(SHORT, sequences=64, ranks=8, drawn=1.0) == SHORT.mean_sequence_tokens


def test_sorted_parts_hold_all_tokens():
    for parts in (1, 2, 16):
        means = sorted_means(SHORT, parts)
        assert list(means) == sorted(means)
        assert fmean(means) == pytest.approx(SHORT.mean_sequence_tokens, rel=0.03)


def test_who_waits_for_whom():
    """Balanced mini-batches differ as they come, less than unbalanced ones, and not at all once sorted."""
    tokens = {}
    for name, changes in {
        "sorted": {"sorted_ranks": True},
        "balanced": {},
        "as they come": {"balanced": False},
        "sorted, but not balanced": {"balanced": False, "sorted_ranks": True},
    }.items():
        batch = GRPO.with_batch(mini_batch_prompts=GRPO.batch.prompts // 4, **changes).batch
        micro = micro_batches_of(batch, GRPO.actor_update)
        tokens[name] = micro.count * micro.tokens
    assert tokens["sorted"] < tokens["balanced"] < tokens["as they come"]
    assert tokens["as they come"] == tokens["sorted, but not balanced"]


def test_padding_to_the_maximum_leaves_ranks_alike():
    padded = GRPO.with_actor_engine(packed=False, padding=Padding.MAXIMUM)
    for balanced_ranks in (True, False):
        batch = padded.with_batch(balanced=balanced_ranks).batch
        micro = micro_batches_of(batch, padded.actor_update)
        assert micro.count * micro.tokens == pytest.approx(128 * 4096)


def test_sorted_micro_batches_are_padded_to_sequences_of_like_length():
    static = workloads.static(4)
    padded = GRPO.with_actor_engine(packed=False, padding=Padding.MICRO_BATCH).with_actor(update=static)
    lengths = {
        is_sorted: micro_batches_of(
            padded.with_batch(sorted_ranks=is_sorted).batch, padded.actor_update
        ).sequence_tokens
        for is_sorted in (True, False)
    }
    mean = GRPO.batch.mean_sequence_tokens
    assert mean < lengths[True] < 1.2 * mean < lengths[False]


def test_micro_batches_in_buckets_are_padded_to_whole_ones() -> None:
    exact = micro_batches_of(GRPO.batch, GRPO.actor_update)
    engine = replace(GRPO.actor.engine, bucket_tokens=5000)
    padded = micro_batches_of(GRPO.batch, replace(GRPO.actor_update, engine=engine))
    assert exact.tokens % 5000 > 0
    assert padded.tokens == (exact.tokens // 5000 + 1) * 5000


def test_a_small_part_of_all_sequences_is_read_at_four_places() -> None:
    """The longest tenth, at an eighth, three, five and seven eighths of it, with the longest prompts."""
    at = [(place + 0.5) / 4 / 10 for place in range(4)]
    responses = fmean(response_lengths(TAILED, at))
    prompts = TAILED.mean_prompt_tokens + TAILED.prompt_spread * 0.9
    assert sorted_means(TAILED, 10)[-1] == pytest.approx(responses + prompts, rel=1e-9)
