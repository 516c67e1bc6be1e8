"""Log-probabilities that an engine returns are left out, and in the upper end while it generates."""

from tests.workloads import grpo_7b
from tuner import memory
from tuner.memory import Estimate
from tuner.workload import Phase, RolloutEngine


def estimate(*, asked: bool, engine: RolloutEngine = RolloutEngine.VLLM) -> Estimate:
    return memory.estimate(grpo_7b().with_rollout(engine=engine, returns_log_probs=asked))


def test_the_upper_end_has_a_row_for_each_sequence() -> None:
    without, asked = (estimate(asked=asked).phase(Phase.ROLLOUT) for asked in (False, True))
    assert without is not None and asked is not None
    rollout = grpo_7b().rollout
    rows = min(rollout.max_sequences, rollout.step_tokens)
    assert asked.peak_bytes == without.peak_bytes
    assert asked.interval == (without.interval[0], without.interval[1] + 4 * rows * 152064)


def test_an_engine_that_sleeps_has_none() -> None:
    without, asked = (estimate(asked=asked).phase(Phase.UPDATE_ACTOR) for asked in (False, True))
    assert without is not None and asked is not None
    assert asked.interval == without.interval
