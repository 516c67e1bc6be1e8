"""Properties of the time model that hold for every workload."""

import cProfile
import pstats
from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import workloads
from tuner.serving.graphs import largest_graph
from tuner.timing import StepTime, step_time
from tuner.workload import GreedyBaseline, Phase, Workload

CONCURRENT = 256
every_workload = pytest.mark.parametrize("make", workloads.ALL, ids=lambda make: make.__name__)


def time_of(workload: Workload, concurrent: int = CONCURRENT) -> StepTime:
    return step_time(workload, concurrent_sequences=concurrent)


def seconds(workload: Workload, phase: Phase, concurrent: int = CONCURRENT) -> float:
    time = time_of(workload, concurrent).phase(phase)
    assert time is not None
    return time.seconds


@every_workload
def test_parts_are_finite_and_add_up(make):
    time = time_of(make())
    assert time.seconds == pytest.approx(sum(phase.seconds for phase in time.phases))
    for phase in time.phases:
        assert phase.seconds > 0
        assert all(isfinite(part) and part >= 0 for _, part in phase.parts), phase
        assert phase.seconds == pytest.approx(sum(part for _, part in phase.parts))
        assert len({name for name, _ in phase.parts}) == len(phase.parts)


def test_phases_are_those_of_the_step_in_order():
    order = list(Phase)
    for make in workloads.ALL:
        phases = [time.phase for time in time_of(make()).phases]
        assert phases == sorted(phases, key=order.index)
    ppo = {time.phase for time in time_of(workloads.ppo_7b()).phases}
    assert ppo == set(Phase) - {Phase.TRAIN, Phase.WAKE_UP, Phase.REWARD, Phase.SAVE_CHECKPOINT}
    grpo = replace(workloads.grpo_7b().with_actor(log_prob=None), reference=None)
    assert [time.phase for time in time_of(grpo).phases] == [
        Phase.ROLLOUT,
        Phase.UPDATE_ACTOR,
        Phase.UPDATE_WEIGHTS,
    ]


@every_workload
@pytest.mark.parametrize(
    ("field", "factor"),
    [
        ("prompts", 2),
        ("responses_per_prompt", 2),
        ("max_prompt_tokens", 2),
        ("max_response_tokens", 2),
        ("epochs", 3),
    ],
)
def test_more_work_takes_longer(make, field, factor):
    """Micro-batches of more work may be a little smaller, and leave less memory free to be given back."""
    workload = make()
    more = workload.with_batch(**{field: getattr(workload.batch, field) * factor})
    assert time_of(more).seconds > time_of(workload).seconds
    for before, after in zip(time_of(workload).phases, time_of(more).phases, strict=True):
        least = 0.95 if before.phase is Phase.UPDATE_WEIGHTS else 0.999
        assert after.seconds >= before.seconds * least, (before, after)


@pytest.mark.parametrize(
    "make", [workloads.grpo_7b, workloads.grpo_0_5b, workloads.ppo_7b, workloads.grpo_moe_30b]
)
def test_more_gpus_are_not_slower_for_the_same_batch(make):
    steps = [time_of(make(nodes=nodes)).seconds for nodes in (1, 2, 4)]
    assert steps == sorted(steps, reverse=True)


def test_doubling_the_gpus_of_large_batches_nearly_halves_the_update():
    one, two = (seconds(workloads.grpo_7b(nodes=nodes), Phase.UPDATE_ACTOR) for nodes in (1, 2))
    assert 1.8 < one / two <= 2.0


def test_a_faster_card_is_faster():
    slow, fast = workloads.grpo_7b(gpu=workloads.H100), workloads.grpo_7b(gpu=workloads.H200)
    assert seconds(fast, Phase.ROLLOUT) < seconds(slow, Phase.ROLLOUT)


def test_the_update_costs_what_its_flop_cost():
    # 8 N FLOP per token with full recomputation, at the stated share of the peak, attention on top.
    workload = workloads.grpo_7b()
    tokens = workload.batch.sequences * workload.batch.sequence_tokens / 2
    body = workload.model.decoder_parameters
    floor = 8 * body * tokens / (8 * workload.cluster.gpu.dense_bf16_flop_per_s * 0.7)
    assert floor < seconds(workload, Phase.UPDATE_ACTOR) < 1.8 * floor


@settings(max_examples=40, deadline=None)
@given(
    budget=st.integers(4096, 65536),
    factor=st.integers(2, 4),
    nodes=st.sampled_from([1, 2]),
    packed=st.booleans(),
)
def test_a_larger_token_budget_is_never_slower(budget, factor, nodes, packed):
    def update(tokens: int) -> float:
        workload = workloads.grpo_7b(nodes=nodes).with_actor(update=workloads.dynamic(tokens))
        return seconds(workload.with_actor_engine(packed=packed), Phase.UPDATE_ACTOR)

    assert update(budget * factor) <= update(budget) * 1.0001


@settings(max_examples=40, deadline=None)
@given(few=st.integers(1, 64), factor=st.sampled_from([2, 4]), packed=st.booleans())
def test_more_sequences_per_micro_batch_are_never_slower(few, factor, packed):
    def update(sequences: int) -> float:
        workload = workloads.grpo_7b().with_actor(update=workloads.static(sequences))
        return seconds(workload.with_actor_engine(packed=packed), Phase.UPDATE_ACTOR)

    power = 1 << (few.bit_length() - 1)
    assert update(power * factor) <= update(power) * 1.0001


@settings(max_examples=60, deadline=None)
@given(few=st.integers(1, 512), more=st.integers(0, 512), tensor=st.sampled_from([1, 2, 4, 8]))
def test_more_concurrent_sequences_are_never_slower(few, more, tensor):
    """By more than events that are put together may cost.

    Within the sizes that a CUDA graph is captured for; without one the host launches every kernel.
    """
    workload = workloads.grpo_7b().with_rollout(tensor_parallel=tensor)
    workload = workload.with_rollout(max_sequences=largest_graph(workload.rollout))
    assert seconds(workload, Phase.ROLLOUT, few + more) <= seconds(workload, Phase.ROLLOUT, few) * 1.015


def calls(workload: Workload) -> int:
    profile = cProfile.Profile()
    profile.runcall(time_of, workload)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@every_workload
def test_pricing_takes_little_work_and_none_for_what_is_remembered(make):
    assert 0 < calls(make()) < 23_000  # 12,900 to 17,700 where nothing is known yet
    assert calls(make()) < 50  # 14 to 16


def test_greedy_responses_lengthen_the_rollout_as_they_are_generated() -> None:
    job = workloads.ALL[0]()
    batch = replace(job.batch, greedy_baseline=None)
    alone = replace(job, batch=batch)
    beside = replace(job, batch=replace(batch, greedy_baseline=GreedyBaseline.BESIDE))
    after = replace(job, batch=replace(batch, greedy_baseline=GreedyBaseline.AFTER))
    twice = replace(job, batch=replace(batch, greedy_baseline=GreedyBaseline.AFTER_NEW_WEIGHTS))
    one_each = replace(job, batch=replace(batch, responses_per_prompt=1))
    rollout = [seconds(it, Phase.ROLLOUT) for it in (alone, beside, after, twice, one_each)]
    assert rollout[0] < rollout[1] < rollout[2] == rollout[3]
    assert rollout[2] == pytest.approx(rollout[0] + rollout[4], rel=0.02)
    synced = [seconds(it, Phase.UPDATE_WEIGHTS) for it in (alone, beside, after, twice)]
    assert synced[0] == synced[1] == synced[2]
    assert synced[3] == pytest.approx(2 * synced[0])
    trained = [seconds(it, Phase.UPDATE_ACTOR) for it in (alone, beside, after, twice)]
    assert len(set(trained)) == 1
