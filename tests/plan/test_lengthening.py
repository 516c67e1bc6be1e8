"""The longest response of a layout, and what lengthens it next at which price."""

from msgspec.structs import replace

from tests import workloads
from tests.readings import PathReading
from tuner import memory
from tuner.consultation.consult import consult_job
from tuner.consultation.premises import Premises
from tuner.plan.lengthening import longest
from tuner.render.carrying import longest_response
from tuner.rules.case import figures
from tuner.workload import Batching, Pass, Workload


def static(sequences: int) -> Workload:
    workload = workloads.grpo_7b()
    batching = Batching(dynamic=False, token_budget=1, micro_batch_sequences=sequences)
    actor = workload.actor
    assert actor.log_prob is not None and workload.reference is not None

    def batched(work: Pass, sequences: int) -> Pass:
        return replace(work, batching=replace(batching, micro_batch_sequences=sequences))

    workload = workload.with_reference(log_prob=batched(workload.reference.log_prob, 1))
    workload = workload.with_actor(
        update=batched(actor.update, sequences), log_prob=batched(actor.log_prob, 1)
    )
    return workload.with_batch(max_prompt_tokens=512, max_response_tokens=1024)


def test_what_lengthens_responses_is_asked_for_again() -> None:
    """With the change laid on the job, its own largest cap fits, and one token more does not."""
    reading = PathReading(static(8))
    answer = longest(reading)
    way = answer.next
    assert answer.cap is not None and answer.cap.limit is not None and way is not None
    assert way.cap.tokens > answer.cap.tokens
    changed = reading.adding(way.overrides).workload

    def certain(cap: int) -> bool:
        return memory.estimate(changed.with_batch(max_response_tokens=cap)).fits_for_certain()

    assert certain(way.cap.tokens)
    if way.cap.limit is not None:
        assert not certain(way.cap.tokens + 1)


def test_the_price_is_that_of_a_step_at_the_length_that_both_have_room_for() -> None:
    reading = PathReading(static(8))
    answer = longest(reading)
    way, cap = answer.next, answer.cap
    assert way is not None and cap is not None
    lengths = replace(reading.workload.batch.lengths, mean_response=cap.tokens)

    def seconds(workload: Workload) -> float:
        at = workload.with_batch(max_response_tokens=cap.tokens, lengths=lengths)
        return figures(at).time.seconds

    before, after = seconds(reading.workload), seconds(reading.adding(way.overrides).workload)
    assert (way.seconds_before, way.step.seconds) == (before, after)
    assert way.change.share == after / before - 1


def test_what_may_be_pasted_comes_first_and_of_that_what_carries_furthest() -> None:
    ways = longest(PathReading(static(8))).lengthened
    ranks = [(way.yours, -way.cap.tokens) for way in ways]
    assert len(ranks) > 1 and ranks == sorted(ranks)
    assert len({way.overrides for way in ways}) == len(ways)


def test_nothing_lengthens_responses_up_to_the_positions_of_the_model() -> None:
    answer = longest(PathReading(static(1)))
    assert answer.cap is not None and answer.cap.limit is None and answer.next is None
    (text,) = longest_response(static(1), answer)
    assert "32,256 tokens for certain (1,024 now); the model has no more positions; " in text


def test_no_length_fits_where_the_states_alone_do_not() -> None:
    alone = workloads.grpo_7b(gpus_per_node=1)
    answer = longest(PathReading(alone))
    assert (answer.cap, answer.lengthened) == (None, ())
    assert list(longest_response(alone, answer)) == ["No length of responses is sure to fit."]


def test_the_words_name_what_lengthens_responses_and_its_price() -> None:
    answer = longest(PathReading(static(8)))
    assert answer.cap is not None and answer.next is not None
    first, second = longest_response(static(8), answer)
    assert f"up to {answer.cap.tokens:,} tokens for certain (1,024 now); then update_actor binds; " in first
    way = answer.next
    assert second.startswith(f"Up to {way.cap.tokens:,} tokens with ") and way.overrides[0] in second
    assert f"({way.finding.rule.summary}: {way.code}); " in second and way.name not in second
    assert f"at {answer.cap.tokens:,} tokens step " in second


def test_a_budget_is_raised_as_far_as_there_is_room() -> None:
    """One for sequences of twice the length leaves no room for a token more."""
    words = (
        "algorithm.adv_estimator=grpo",
        "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.model.use_remove_padding=True",
        "actor_rollout_ref.actor.use_dynamic_bsz=True",
        "data.max_response_length=8192",
        "trainer.n_gpus_per_node=8",
    )
    reading = consult_job("/dev/null", words, Premises(gpu="h100-sxm", verl_version="0.7.1"))[1].reading
    answer = longest(reading)
    assert answer.cap is not None and answer.cap.limit is not None and answer.next is not None
    assert (answer.cap.tokens, answer.cap.limit.code) == (16_384 - 512, "CFG121")
    assert answer.next.code == "CFG121"
    assert answer.cap.tokens < answer.next.cap.tokens < 2 * answer.cap.tokens
