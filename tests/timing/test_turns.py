"""Responses of several turns: what they add to an engine, and what goes on while tools are waited for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests import workloads
from tuner.timing import step_time
from tuner.timing.assumptions import AGENT_TURN_S
from tuner.timing.decode import RolloutInput
from tuner.timing.generation.engine import SimulatedEngine
from tuner.timing.generation.load import CutResponse, Load, priced_step
from tuner.timing.generation.rollout import generation, load_of, rollout_seconds
from tuner.timing.generation.simulation import simulate
from tuner.timing.generation.step import CAUSES, step_prices
from tuner.timing.generation.turns import cut_response
from tuner.workload import Controller, Conversation, Lengths, Workload

pytestmark = pytest.mark.sampled(6)

ROOMY = 10**6  # sequences that the cache holds
CROWDED = 40


def talking(
    turns: float = 1,
    *,
    tool_tokens: float = 0,
    tool_seconds: float | None = None,
    response: int = 700,
    prompts: int = 64,
    agents: int = 10**6,  # so many that none is waited for
    most: int | None = None,
) -> Workload:
    conversation = Conversation(turns=turns, most_turns=most, tool_tokens=tool_tokens)
    lengths = Lengths(mean_prompt=200, mean_response=response, tool_seconds=tool_seconds)
    job = workloads.grpo_7b().with_batch(prompts=prompts, lengths=lengths, conversation=conversation)
    return structs.replace(job.with_rollout(max_sequences=256), controller=Controller(agent_workers=agents))


def cut_of(load: Load, place: int) -> CutResponse:
    assert load.turns is not None
    return load.turns.cuts[place]


def parts(job: Workload, held: int = ROOMY) -> dict[str, float]:
    return rollout_seconds(RolloutInput.of(job), concurrent_sequences=held).parts


def seconds(job: Workload, held: int = ROOMY) -> float:
    return sum(parts(job, held).values())


def test_one_turn_is_a_response_in_one_piece() -> None:
    piece = talking().with_batch(conversation=None)
    assert step_time(talking(), concurrent_sequences=64) == step_time(piece, concurrent_sequences=64)
    waiting = talking(tool_seconds=20.0)
    assert seconds(waiting) == pytest.approx(seconds(piece) + 20)


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("tool_seconds", [None, 5.0])
def test_more_turns_take_no_less_with_the_same_tokens(caching: bool, tool_seconds: float | None) -> None:
    """Where all run at once; among more, those who wait get their turn earlier for it."""
    jobs = [talking(turns, tool_seconds=tool_seconds) for turns in (2, 3, 4, 5)]
    taken = [seconds(job.with_rollout(prefix_caching=caching)) for job in jobs]
    whole = seconds(talking().with_rollout(prefix_caching=caching))
    assert whole <= taken[0]
    if not caching and tool_seconds is None:
        assert taken == sorted(taken)  # each turn computes the conversation again


@settings(max_examples=25, deadline=None)
@given(
    turns=st.floats(1.1, 30),
    tool_tokens=st.integers(0, 300),
    tool_seconds=st.sampled_from([None, 1.0, 60.0]),
    prompts=st.sampled_from([16, 200, 512]),
    held=st.sampled_from([16, 200, ROOMY]),
    caching=st.booleans(),
)
def test_every_token_is_written_once_and_none_that_tools_answer(
    turns: float, tool_tokens: int, tool_seconds: float | None, prompts: int, held: int, caching: bool
) -> None:
    job = talking(turns, tool_tokens=tool_tokens, tool_seconds=tool_seconds, prompts=prompts)
    inputs = RolloutInput.of(job.with_rollout(prefix_caching=caching))
    load, done = load_of(inputs, held), generation(inputs, concurrent_sequences=held)
    if held == ROOMY:
        assert done.tokens == pytest.approx(load.response_tokens, rel=1e-6)
    whole = sum(count * tokens for count, tokens in load.responses)
    calls = sum(
        count * (cut_of(load, place).number - 1) for place, (count, _tokens) in enumerate(load.responses)
    )
    assert calls <= (turns - 1) * load.sequences * 1.001
    assert whole - load.response_tokens <= tool_tokens * calls + load.sequences * 5
    assert done.most_running <= 256
    assert all(stretch.steps > 0 for stretch in done.stretches)
    assert done.idle_s >= 0


@given(length=st.integers(1, 5000), number=st.floats(1, 60), tool_tokens=st.integers(0, 4000))
def test_turns_of_a_response_follow_each_other(length: int, number: float, tool_tokens: int) -> None:
    cut = cut_response(length, number, tool_tokens)
    ends = [cut.after(turn) for turn in range(cut.turns)]
    assert ends[-1] == length
    for turn in range(1, cut.turns):
        assert cut.before(turn) == ends[turn - 1] + cut.tool_tokens
        assert cut.before(turn) < ends[turn]
    if cut.turns > 1:
        assert cut.stands_for * (cut.turns - 1) == pytest.approx(min(number, length) - 1)


@settings(max_examples=20, deadline=None)
@given(
    turns=st.floats(1.5, 30),
    tool_seconds=st.sampled_from([None, 20.0]),
    prompts=st.sampled_from([64, 512]),
    held=st.sampled_from([CROWDED, 400, ROOMY]),
    caching=st.booleans(),
)
def test_seconds_that_the_clock_of_tools_has_asked_for_are_those_of_the_steps(
    turns: float, tool_seconds: float | None, prompts: int, held: int, caching: bool
) -> None:
    """They are kept and not priced again, and a cache that makes no difference is simulated once."""
    job = talking(turns, tool_seconds=tool_seconds, prompts=prompts, agents=8)
    inputs = RolloutInput.of(job.with_rollout(prefix_caching=caching))
    load, prices = load_of(inputs, held), step_prices(inputs)
    done, alone = generation(inputs, concurrent_sequences=held), simulate(load)
    stages = inputs.rollout.pipeline_parallel
    assert alone.priced == tuple(priced_step(prices, stretch, stages) for stretch in alone.stretches)
    assert done.priced == alone.priced
    in_steps = sum(
        stretch.steps * sum(step[: len(CAUSES)])
        for stretch, step in zip(done.stretches, done.priced, strict=True)
    )
    parts = rollout_seconds(inputs, concurrent_sequences=held).parts
    assert in_steps + done.idle_s == pytest.approx(sum(parts.values()))


def test_what_tools_answer_is_computed_and_not_generated() -> None:
    silent, telling = (talking(4, tool_tokens=tokens) for tokens in (0, 100))
    assert parts(telling)["decode"] < parts(silent)["decode"]
    assert parts(telling)["prefill"] > parts(silent)["prefill"]


def test_without_prefix_caching_each_turn_computes_the_conversation_again() -> None:
    cached, again = (
        generation(RolloutInput.of(talking(5).with_rollout(prefix_caching=on)), concurrent_sequences=ROOMY)
        for on in (True, False)
    )
    assert cached.recomputed_tokens == 0
    load = load_of(RolloutInput.of(talking(5)), ROOMY)
    expected = 0.0
    for place, (count, _tokens) in enumerate(load.responses):
        cut = cut_of(load, place)
        for turn in range(1, cut.turns):
            expected += count * cut.stands_for * (200 + cut.before(turn))
    assert again.recomputed_tokens == pytest.approx(expected)


def test_in_a_crowded_cache_others_take_the_blocks_of_those_who_are_with_their_tools() -> None:
    job = talking(4, prompts=512, response=900)
    roomy, crowded = (
        generation(RolloutInput.of(job), concurrent_sequences=held) for held in (ROOMY, CROWDED)
    )
    assert roomy.recomputed_tokens == 0 < crowded.recomputed_tokens
    alone = talking(1, prompts=512, response=900)
    lost = generation(RolloutInput.of(alone), concurrent_sequences=CROWDED).recomputed_tokens
    assert crowded.recomputed_tokens > lost  # beyond what sequences lose that are preempted
    assert seconds(job, CROWDED) > seconds(alone, CROWDED)


def test_others_go_on_while_one_waits() -> None:
    """Few sequences wait as long as the last one; among many, others fill much of it."""
    few, many = (
        [seconds(talking(4, tool_seconds=wait, prompts=prompts), held) for wait in (None, 30.0)]
        for prompts, held in ((8, ROOMY), (512, CROWDED))
    )
    assert few[1] == pytest.approx(few[0] + 30, abs=3)
    assert many[1] - many[0] < (few[1] - few[0]) * 2 / 3
    assert parts(talking(4, tool_seconds=30.0, prompts=8))["idle"] > 10
    assert "idle" not in parts(talking(4, prompts=512), CROWDED)


def test_a_few_processes_hold_many_conversations_one_after_the_other() -> None:
    one, many = (seconds(talking(8, prompts=512, agents=agents)) for agents in (1, 10**6))
    sequences = talking(8, prompts=512).batch.sequences
    assert one > many
    assert one > 7 * sequences * AGENT_TURN_S  # seven calls of tools


def test_no_response_has_more_turns_than_it_may_have() -> None:
    free, bound = (load_of(RolloutInput.of(talking(4, most=most)), ROOMY) for most in (None, 5))
    assert free.turns is not None and bound.turns is not None
    assert max(cut.number for cut in free.turns.cuts) > 5 == max(cut.number for cut in bound.turns.cuts)


def test_turns_that_come_in_parts_end_when_they_do_one_by_one() -> None:
    """Half of the jobs to 0.1 %, nine in ten to 2.5 %, all but one to 4 %.

    In that one another response ends last, by 10 %; which one does depends on little.
    """
    apart = []
    for held in (CROWDED, 200, ROOMY):
        for turns in (2, 4, 8, 16, 30):
            for caching in (True, False):
                for wait in (None, 20.0):
                    job = talking(turns, tool_seconds=wait, prompts=512, agents=8)
                    load = load_of(RolloutInput.of(job.with_rollout(prefix_caching=caching)), held)
                    together, one_by_one = (
                        sum(
                            stretch.steps * sum(step[: len(CAUSES)])
                            for stretch, step in zip(done.stretches, done.priced, strict=True)
                        )
                        + done.idle_s
                        for done in (
                            SimulatedEngine(load).run(),
                            SimulatedEngine(load, turn_admissions=10**9).run(),
                        )
                    )
                    apart.append(abs(together / one_by_one - 1))
    apart.sort()
    assert apart[len(apart) // 2] < 0.001
    assert apart[len(apart) * 9 // 10] < 0.025
    assert apart[-2] < 0.04
    assert apart[-1] < 0.10
