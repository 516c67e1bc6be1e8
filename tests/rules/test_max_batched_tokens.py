"""Which limit on the tokens of a step is proposed, by seconds that are given."""

from types import SimpleNamespace

import pytest

from tests.workloads import grpo_7b
from tuner.rules.rollout import max_batched_tokens
from tuner.workload import RolloutEngine, Workload

PAYS = {4096: 30.0, 8192: 20.0, 16_384: 25.0}  # seconds of a step with each limit


def proposed(
    seconds: dict[int, float] = PAYS, *, limit: int = 2048, sequences: int = 256, **rollout: object
) -> int | None:
    """The limit that is proposed, where the limits with seconds pay."""
    job = grpo_7b().with_rollout(max_batched_tokens=limit, max_sequences=sequences, **rollout)

    def tokens(workload: Workload) -> int:
        assert workload.with_rollout(max_batched_tokens=limit) == job
        return workload.generator.max_batched_tokens

    case = SimpleNamespace(
        workload=job,
        pays=lambda other: tokens(other) in seconds,
        seconds=lambda other: seconds[tokens(other)],
    )
    said = max_batched_tokens.check(case)  # type: ignore[arg-type]
    if said is None:
        return None
    assert said.proposal is not None
    assert said.message.startswith(
        f"a step of the rollout engine takes at most {limit:,} tokens of prompts; "
    )
    assert said.message.endswith(f"; {tokens(said.proposal):,} are affordable")
    return tokens(said.proposal)


def test_the_limit_with_the_shortest_step_is_proposed() -> None:
    assert proposed() == 8192
    assert proposed({4096: 30.0, 16_384: 25.0}) == 16_384
    assert proposed({4096: 30.0}) == 4096
    assert proposed({}) is None


@pytest.mark.parametrize(("limit", "speaks"), [(1024, True), (2048, True), (2049, False), (8192, False)])
def test_limits_above_2048_tokens_stay(limit: int, speaks: bool) -> None:
    assert (proposed(limit=limit) is not None) is speaks


@pytest.mark.parametrize(
    ("sequences", "expected"), [(4096, 4096), (4097, 8192), (8192, 8192), (16_384, 16_384), (16_385, None)]
)
def test_a_limit_below_the_sequences_is_not_proposed(sequences: int, expected: int | None) -> None:
    """As vLLM refuses it, however short its step would be."""
    assert proposed({4096: 10.0, 8192: 20.0, 16_384: 25.0}, sequences=sequences) == expected


def test_sglang_does_not_get_it() -> None:
    assert proposed(engine=RolloutEngine.SGLANG) is None
