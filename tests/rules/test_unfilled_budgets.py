"""The verdict on a job of which only a micro-batch that fills its budget of tokens is beyond the card."""

from msgspec.structs import replace

from tests import workloads
from tuner.advise import Condition, Verdict
from tuner.advise.expected import expected_passes, peak_as_expected
from tuner.advise.verdicts import Judgement, judge_memory
from tuner.memory import estimate
from tuner.render.verdict_words import memory_line
from tuner.rules.case import Case
from tuner.workload import Lengths, Phase, Workload

JOB = workloads.grpo_7b().with_batch(
    prompts=256,
    mini_batch_prompts=256,
    responses_per_prompt=1,
    max_prompt_tokens=512,
    max_response_tokens=2_048,
    lengths=Lengths(mean_prompt=279, mean_response=1_900),
)


def with_budget(workload: Workload, tokens: int) -> Workload:
    update = workload.actor.update
    batching = replace(update.batching, dynamic=True, token_budget=tokens)
    return workload.with_actor(update=replace(update, batching=batching))


def on_card(workload: Workload, size: int) -> Workload:
    cluster = workload.cluster
    small = replace(cluster, gpu=cluster.gpu.with_memory(size))
    return replace(workload, cluster=small)


def judged(workload: Workload) -> Judgement:
    return judge_memory(Case.of(workload, headroom=0.1), None)


# A rank has 69,728 tokens where lengths are as expected: two micro-batches of 34,864.
FULL = with_budget(JOB, 65_536).with_rollout(memory_fraction=0.3)
PEAK, LOW = estimate(FULL).worst.peak_bytes, peak_as_expected(FULL) or 0


def test_an_expected_micro_batch_takes_less_and_reaches_as_far() -> None:
    expected = expected_passes(FULL)[Phase.UPDATE_ACTOR]
    full = estimate(FULL).phase(Phase.UPDATE_ACTOR)
    assert full is not None
    assert (expected.full_tokens, expected.tokens) == (65_536, 34_864)
    assert expected.estimate.peak_bytes < full.peak_bytes
    assert expected.estimate.interval[1] == full.interval[1]
    assert expected.kept_bytes <= full.kept_bytes


def test_a_job_fits_only_where_a_full_micro_batch_does() -> None:
    high = estimate(FULL).high_bytes
    assert judged(on_card(FULL, high)).verdict is Verdict.FITS
    assert judged(on_card(FULL, high - 1)).verdict is not Verdict.FITS


def test_a_full_micro_batch_that_is_beyond_the_card_is_the_condition() -> None:
    assert LOW < PEAK
    job = on_card(FULL, (LOW + PEAK) // 2)
    found = judged(job)
    assert (found.verdict, found.condition) == (Verdict.MAY_NOT_FIT, Condition.BUDGET_NOT_FILLED)
    assert found.expected_bytes == peak_as_expected(job)
    assert not found.is_expected_to_fit  # over many steps one is full
    assert "fits while no micro-batch fills its budget of tokens" in memory_line(found, estimate(job))


def test_where_expected_micro_batches_are_beyond_the_card_the_job_does_not_fit() -> None:
    assert judged(on_card(FULL, LOW - 2**30)).verdict is Verdict.DOES_NOT_FIT


def test_micro_batches_of_a_fixed_number_of_sequences_are_full() -> None:
    static = JOB.with_actor(update=workloads.static(2), log_prob=None)
    assert Phase.UPDATE_ACTOR not in expected_passes(static)
