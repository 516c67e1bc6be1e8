"""What is known of lengths: the seconds go by it, and what is assumed without it changes nothing."""

from statistics import NormalDist

import pytest

from tests import workloads
from tuner.memory.rollout.capacity import rollout_memory
from tuner.timing import step_time
from tuner.timing.responses import largest_normal, slowest_responses
from tuner.workload import Lengths, Phase, Workload

GRPO = workloads.grpo_7b()
LONGEST = GRPO.batch.max_response_tokens


def knowing(prompt: int | None = None, response: int | None = None, p95: int | None = None) -> Workload:
    lengths = Lengths(mean_prompt=prompt, mean_response=response, response_p95=p95)
    return GRPO.with_batch(lengths=lengths)


@pytest.mark.parametrize("count", [1, 2, 4, 8, 64, 1024])
def test_the_largest_of_several_numbers_is_that_of_the_standard_library(count: int) -> None:
    expected = NormalDist().inv_cdf((count - 0.375) / (count + 0.25))
    assert largest_normal(count) == pytest.approx(expected, abs=1e-9)


HALVES = knowing(GRPO.batch.max_prompt_tokens // 2, LONGEST // 2)


def test_what_is_assumed_changes_nothing_when_it_is_given() -> None:
    assert rollout_memory(HALVES) == rollout_memory(GRPO)
    assert step_time(HALVES, concurrent_sequences=100) == step_time(GRPO, concurrent_sequences=100)


PAIRS: list[tuple[float, float | None]] = [
    *((part, None) for part in (0.06, 0.1, 0.25, 0.5, 0.7, 0.95, 1.0)),
    *(
        (part, p95)
        for part in (0.1, 0.25, 0.5, 0.7, 1.0)
        for p95 in (0.3, 0.6, 1.0)
        if part <= p95 < 8 * part
    ),
]


@pytest.mark.parametrize("sequences", [1, 7, 64, 1000])
@pytest.mark.parametrize(("part", "p95"), PAIRS)
def test_the_tokens_of_responses_are_those_of_the_mean(
    part: float, p95: float | None, sequences: int
) -> None:
    batch = knowing(None, round(part * LONGEST), None if p95 is None else round(p95 * LONGEST)).batch
    responses = slowest_responses(batch, sequences=sequences, engines=1)
    assert sum(count for count, _ in responses) == sequences
    mean = sum(count * length for count, length in responses) / sequences
    assert mean == pytest.approx(part * LONGEST, rel=0.01)
    assert max(length for _, length in responses) <= LONGEST
    several = slowest_responses(batch, sequences=sequences, engines=8)
    assert sum(count * length for count, length in several) >= mean * sequences * (1 - 1e-9)


def test_shorter_responses_take_less_time() -> None:
    seconds = [
        step_time(knowing(64, round(share * LONGEST)), concurrent_sequences=128).seconds
        for share in (0.1, 0.3, 0.5, 0.9)
    ]
    assert seconds == sorted(seconds)


def test_a_long_tail_keeps_the_rollout_longer_where_the_mean_is_the_same() -> None:
    def rollout(p95: int) -> float:
        waves = knowing(64, 400, p95).with_rollout(max_sequences=128)
        phase = step_time(waves, concurrent_sequences=1024).phase(Phase.ROLLOUT)
        assert phase is not None
        return phase.seconds

    assert rollout(420) < rollout(1200)


def test_the_cache_is_planned_for_what_is_known() -> None:
    full = rollout_memory(GRPO.with_rollout(memory_fraction=0.35, max_sequences=4096))
    for short in (knowing(response=LONGEST // 8), knowing(p95=LONGEST // 4)):
        held = rollout_memory(short.with_rollout(memory_fraction=0.35, max_sequences=4096))
        assert held.kv_bytes == full.kv_bytes
        assert held.concurrent_sequences > full.concurrent_sequences
        assert held.preempted_sequences <= full.preempted_sequences
    room = knowing(100, 200, 700).batch.room_tokens
    assert room == 2 * 100 + 700


def test_a_known_percentile_sets_the_mean_that_nobody_gave() -> None:
    assert knowing(p95=950).batch.mean_response_tokens == pytest.approx(500)
    assert knowing(p95=LONGEST).batch.mean_response_tokens == LONGEST / 2


def test_shorter_maxima_bound_what_is_known() -> None:
    """A rule or a search may look at the same job with shorter maxima."""
    batch = knowing(400, 900, 1500).with_batch(max_prompt_tokens=100, max_response_tokens=600).batch
    assert (batch.mean_prompt_tokens, batch.mean_response_tokens) == (100, 600)
    assert batch.response_p95_tokens == 600
    assert batch.room_tokens == 700
