"""How long a step's batch travels between driver and workers, against arithmetic by hand."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.timing import step_time
from tuner.timing.assumptions import (
    AGENT_BEGIN_S,
    FRESH_BYTES_PER_S,
    LISTED_NUMBER_S,
    RECEIVED_BYTES_PER_S,
    SENT_BYTES_PER_S,
)
from tuner.timing.decode import RolloutInput
from tuner.timing.dispatch import (
    dispatch_seconds,
    listing_seconds,
    prompt_bytes,
    request_seconds,
    response_bytes,
    response_seconds,
    returned_bytes,
    sent_bytes,
)
from tuner.timing.job import TimedPasses
from tuner.workload import Controller, Phase, RolloutEngine, Travel, Workload


def job(workload: Workload, phase: Phase) -> TimedPasses:
    step_pass = next(one for one in workload.passes() if one.phase is phase)
    return TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)


BASE = workloads.grpo_7b().with_batch(
    prompts=512,
    mini_batch_prompts=32,
    responses_per_prompt=16,
    max_prompt_tokens=2048,
    max_response_tokens=8192,
    travel=Travel.PADDED,
)


def test_bytes_are_those_of_the_padded_tensors() -> None:
    # Ids, mask, positions of 10,240; prompt; response and its mask: all int64.
    assert sent_bytes(job(BASE, Phase.OLD_LOG_PROB)) == 8192 * 8 * (3 * 10240 + 2048 + 2 * 8192)
    more = sent_bytes(job(BASE, Phase.UPDATE_ACTOR)) - sent_bytes(job(BASE, Phase.OLD_LOG_PROB))
    assert more == 8192 * 5 * 4 * 8192
    assert returned_bytes(job(BASE, Phase.OLD_LOG_PROB)) == 8192 * 2 * 4 * 8192
    assert returned_bytes(job(BASE, Phase.UPDATE_ACTOR)) == 0


def test_more_gpus_take_the_same_from_the_driver() -> None:
    one = job(BASE, Phase.OLD_LOG_PROB)
    wide = replace(one.engine, parallel=replace(one.engine.parallel, gpus=512))
    many = replace(one, step_pass=replace(one.step_pass, engine=wide))
    least = sent_bytes(one) / SENT_BYTES_PER_S + returned_bytes(one) / RECEIVED_BYTES_PER_S
    assert least < dispatch_seconds(many) < dispatch_seconds(one) < 1.5 * least


def test_a_store_of_its_own_is_read_by_the_workers() -> None:
    packed, stored = (BASE.with_batch(travel=travel) for travel in (Travel.PACKED, Travel.STORED))
    assert sent_bytes(job(packed, Phase.OLD_LOG_PROB)) < sent_bytes(job(BASE, Phase.OLD_LOG_PROB))
    assert dispatch_seconds(job(stored, Phase.UPDATE_ACTOR)) == 0


def rollout(workload: Workload, *, agents: int = 0) -> RolloutInput:
    return RolloutInput.of(replace(workload, controller=Controller(agent_workers=agents)))


def test_responses_come_back_padded() -> None:
    # Ids, mask, positions of 10,240; prompt and response: all int64.
    ranks, agents = rollout(BASE), rollout(BASE, agents=8)
    assert prompt_bytes(ranks) == 8192 * 8 * 3 * 2048 and prompt_bytes(agents) == 0
    assert response_bytes(ranks) == 8192 * 8 * (3 * 10240 + 2048 + 8192)
    assert response_bytes(agents) - response_bytes(ranks) == 8192 * 8 * 8192  # the response's mask
    telling = rollout(BASE.with_rollout(returns_log_probs=True))
    assert response_bytes(telling) - response_bytes(ranks) == 8192 * 4 * 8192
    assert listing_seconds(telling) == 2 * listing_seconds(ranks)


def test_the_driver_reads_and_joins_whatever_many_workers_send() -> None:
    few, many = (rollout(BASE, agents=agents) for agents in (8, 512))
    least = response_bytes(few) * (1 / RECEIVED_BYTES_PER_S + 1 / FRESH_BYTES_PER_S)
    assert least < response_seconds(many) < response_seconds(few) < 1.5 * least


def test_each_rank_lists_what_its_replica_wrote() -> None:
    split, wide = (rollout(BASE.with_rollout(tensor_parallel=ranks)) for ranks in (1, 4))
    assert listing_seconds(wide) == 4 * listing_seconds(split)
    assert listing_seconds(split) == 8192 / split.rollout.replicas * 8192 * LISTED_NUMBER_S
    assert listing_seconds(rollout(BASE, agents=8)) == 0
    assert listing_seconds(rollout(BASE.with_rollout(engine=RolloutEngine.SGLANG))) == 0


def test_the_rollout_has_the_way_of_its_responses_unless_they_stay_in_a_store() -> None:
    told, stored = (
        step_time(BASE.with_batch(travel=travel), concurrent_sequences=64).phase(Phase.ROLLOUT)
        for travel in (Travel.PADDED, Travel.STORED)
    )
    assert told is not None and stored is not None
    assert dict(told.parts)["dispatch"] == response_seconds(RolloutInput.of(BASE))
    assert "dispatch" not in dict(stored.parts)
    assert told.seconds == stored.seconds + response_seconds(RolloutInput.of(BASE))


def test_conversations_are_begun_one_after_the_other_in_each_process() -> None:
    assert request_seconds(rollout(BASE)) == 0
    few, many = (rollout(BASE, agents=agents) for agents in (8, 64))
    assert request_seconds(few) == pytest.approx(8192 / 8 * AGENT_BEGIN_S)
    assert request_seconds(many) == pytest.approx(8192 / 64 * AGENT_BEGIN_S)
    asynchronous = replace(BASE, controller=Controller(agent_workers=8))
    parts = dict(step_time(asynchronous, concurrent_sequences=64).phases[0].parts)
    assert parts["requests"] == request_seconds(few)
    assert "requests" not in dict(step_time(BASE, concurrent_sequences=64).phases[0].parts)
