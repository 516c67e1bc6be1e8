"""How tokens get to their experts under Megatron: copies, messages, and what the host has to do for them."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.timing import assumptions as assume
from tuner.timing import step_time
from tuner.timing.communication import all_to_all_seconds, gather_seconds, reduce_scatter_seconds
from tuner.timing.expert_dispatch import copy_bytes, dispatch_calls, reached_ranks
from tuner.timing.job import TimedPasses, kernels_seconds
from tuner.timing.megatron import counting_seconds, expert_exchange_seconds
from tuner.workload import Checkpointing, Dispatcher, Phase, Workload

SPARSE = workloads.QWEN3_30B_A3B  # 128 experts, 8 of each token
MEGATRON = replace(workloads.grpo_32b_megatron(), model=SPARSE)


def workload(dispatcher: Dispatcher = Dispatcher.ALL_TO_ALL, **grid: int) -> Workload:
    sizes = {"tensor": 1, "pipeline": 1, "expert": 8, "expert_tensor": 1, **grid}
    parallel = replace(MEGATRON.actor.engine.parallel, **sizes)
    options: dict[str, Any] = {"parallel": parallel, "dispatcher": dispatcher}
    return MEGATRON.with_actor_engine(**options, checkpointing=Checkpointing.NONE, fused_rotary=True)


def job(dispatcher: Dispatcher = Dispatcher.ALL_TO_ALL, **grid: int) -> TimedPasses:
    asked = workload(dispatcher, **grid)
    return TimedPasses(cluster=asked.cluster, batch=asked.batch, step_pass=asked.actor_update)


def test_a_token_reaches_fewer_ranks_than_experts() -> None:
    """By hand: of 128 experts 16 are on each of 8 ranks, and 8 others than these 16 are missed."""
    assert SPARSE.moe is not None
    missed = 1.0
    for chosen in range(8):
        missed *= (112 - chosen) / (128 - chosen)
    ranks = workload().actor.engine.parallel
    assert reached_ranks(SPARSE.moe, ranks) == pytest.approx(8 * (1 - missed))
    assert 5 < reached_ranks(SPARSE.moe, ranks) < 6


def test_messages_of_each_dispatcher_by_hand() -> None:
    timed = job()
    cluster, size = timed.cluster, copy_bytes(SPARSE.hidden, 2)
    assert size == 2 * SPARSE.hidden + 4
    tokens = timed.micro.tokens
    copies = 2 * all_to_all_seconds(tokens * 8 * size, cluster, 8)
    assert expert_exchange_seconds(timed) == pytest.approx(copies)
    whole = tokens * 8 * size
    gathered = gather_seconds(whole, cluster, 8) + reduce_scatter_seconds(whole, cluster, 8)
    assert expert_exchange_seconds(job(Dispatcher.ALL_GATHER)) == pytest.approx(gathered)


def test_experts_that_ranks_share_get_their_tokens_by_a_further_gather() -> None:
    apart, shared = job(expert=4), job(expert=4, expert_tensor=2)
    local = shared.micro.tokens * 8 * copy_bytes(SPARSE.hidden, 2)
    further = sum(move(2 * local, shared.cluster, 2) for move in (gather_seconds, reduce_scatter_seconds))
    assert expert_exchange_seconds(shared) >= expert_exchange_seconds(apart) + further * 0.99


def test_deepep_shortens_the_exchange_and_the_step() -> None:
    assert expert_exchange_seconds(job(Dispatcher.FLEX)) < expert_exchange_seconds(job())
    updates = [
        step_time(workload(dispatcher)).phase(Phase.UPDATE_ACTOR)
        for dispatcher in (Dispatcher.FLEX, Dispatcher.ALL_TO_ALL)
    ]
    assert updates[0] is not None
    assert updates[1] is not None
    assert updates[0].seconds < updates[1].seconds


@pytest.mark.parametrize("backward", [False, True])
def test_the_host_starts_the_dispatchers_collectives(backward: bool) -> None:
    """Four of an all-to-all forward and three backward, three more where ranks share experts."""
    alone, apart, shared = (
        kernels_seconds(job(**grid), backward=backward)
        for grid in ({"expert": 1}, {"expert": 8}, {"expert": 4, "expert_tensor": 2})
    )
    assert apart - alone == pytest.approx((3 if backward else 4) * assume.COLLECTIVE_CALL_S)
    assert shared - apart == pytest.approx(3 * assume.COLLECTIVE_CALL_S)


def test_recomputation_dispatches_once_more() -> None:
    parallel = workload().actor.engine.parallel
    for dispatcher in Dispatcher:
        forward, backward, both = (
            dispatch_calls(dispatcher, parallel, backward=back, recomputes=recomputes)
            for back, recomputes in ((False, False), (True, False), (True, True))
        )
        assert both == forward + backward


def test_the_host_waits_for_the_counts_of_each_sparse_layer() -> None:
    assert counting_seconds(job(expert=1)) == pytest.approx(assume.READ_NUMBER_S)
    assert counting_seconds(job()) == pytest.approx(assume.READ_NUMBER_S + assume.COLLECTIVE_CALL_S)
    dense = workloads.grpo_32b_megatron()
    update = TimedPasses(cluster=dense.cluster, batch=dense.batch, step_pass=dense.actor_update)
    assert counting_seconds(update) == 0
