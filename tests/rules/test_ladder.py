"""Rungs for what does not fit come in the order of what they cost."""

import pytest
from msgspec.structs import replace

from tests.workloads import dynamic, grpo_7b, ppo_7b
from tuner.dtypes import DType
from tuner.rules import ladder, rungs, sequence_sharing
from tuner.rules.case import Case
from tuner.units import GIB
from tuner.workload import Checkpointing, HeadKind, Lora, Phase, Workload


def case_of(workload: Workload) -> Case:
    return Case.of(workload, headroom=0.1)


def too_large() -> Workload:
    """65,536 tokens without recomputation: four times what the card holds."""
    workload = grpo_7b()
    return workload.with_actor(
        engine=replace(workload.actor.engine, checkpointing=Checkpointing.NONE), update=dynamic(65536)
    )


def test_nothing_is_due_where_everything_fits() -> None:
    case = case_of(grpo_7b())
    rungs = {rung for rungs in ladder.LADDERS for rung in rungs.rungs}
    assert all(ladder.due(case, rung) is None for rung in rungs)


def test_only_the_cheapest_sufficient_cure_is_due() -> None:
    case = case_of(too_large())
    assert ladder.due(case, rungs.checkpointed) is Phase.UPDATE_ACTOR
    assert ladder.due(case, rungs.one_sequence) is None
    assert ladder.due(case, rungs.activations_offloaded) is None


def test_dearer_cures_follow_when_it_is_not_sufficient() -> None:
    workload = too_large().with_actor(update=dynamic(1 << 20)).with_rollout(max_sequences=64)
    case = case_of(workload.with_batch(max_response_tokens=1 << 19))
    due = [rung for rung in ladder.LADDERS[0].rungs if ladder.due(case, rung) is Phase.UPDATE_ACTOR]
    assert due[:3] == [rungs.fewer_graphs, rungs.checkpointed, rungs.one_sequence]
    assert rungs.head_fused in due
    assert sequence_sharing.sequence_shared in due


def test_a_cure_that_lowers_nothing_is_not_due() -> None:
    workload = too_large().with_actor_engine(optimizer_offload=True)
    assert ladder.due(case_of(workload), rungs.optimizer_offloaded) is None


@pytest.mark.parametrize("rungs", ladder.LADDERS, ids=lambda rungs: rungs.phases[0].value)
def test_cures_are_idempotent(rungs: ladder.Ladder) -> None:
    for phase in rungs.phases:
        for rung in rungs.rungs:
            once = rung(ppo_7b(), phase)
            assert rung(once, phase) == once


def test_the_head_is_fused_only_where_that_is_right() -> None:
    workload = grpo_7b().with_actor_head(fusable=())
    assert rungs.head_fused(workload, Phase.UPDATE_ACTOR) == workload
    fused = rungs.head_fused(grpo_7b(), Phase.UPDATE_ACTOR)
    assert fused.actor.head.kind is HeadKind.FUSED_TORCH
    assert fused.reference is not None
    assert fused.reference.head.kind is HeadKind.FUSED_TORCH


def test_sequences_are_shared_by_sizes_that_divide_the_heads() -> None:
    ranks = sequence_sharing.sequence_splits(grpo_7b(), Phase.UPDATE_ACTOR)
    assert ranks == [2, 4]  # of 28 heads, 4 key-value heads


def test_the_critic_shares_sequences_by_itself() -> None:
    workload = ppo_7b()
    assert workload.critic is not None
    ranks = sequence_sharing.sequence_splits(workload, Phase.UPDATE_CRITIC)[-1]
    shared = sequence_sharing.sequence_shared(workload, Phase.UPDATE_CRITIC)
    assert shared.critic is not None
    assert shared.critic.engine.parallel.ulysses == ranks > workload.critic.engine.parallel.ulysses
    assert shared.actor.engine == workload.actor.engine


def test_largest_finds_the_edge() -> None:
    case = case_of(grpo_7b())
    tried: list[int] = []

    def propose(tokens: int) -> Workload:
        tried.append(tokens)
        return case.workload.with_actor(update=dynamic(tokens))

    found = case.largest(range(4096, 409600, 4096), propose)
    assert found is not None
    assert case.affords(case.workload.with_actor(update=dynamic(found)))
    assert not case.affords(case.workload.with_actor(update=dynamic(found + 4096)))
    assert len(tried) < 10


def test_largest_is_none_when_nothing_is_accepted() -> None:
    case = case_of(grpo_7b())
    assert case.largest([1, 2, 3], lambda _: case.workload, accept=lambda _: False) is None


def test_graphs_are_kept_for_as_many_sequences_as_run() -> None:
    few = rungs.fewer_graphs(grpo_7b().with_rollout(max_sequences=50), Phase.ROLLOUT)
    assert few.rollout.capture_sizes == (1, 2, 4, 8, 16, 24, 32, 40, 48, 56)
    exact = rungs.fewer_graphs(grpo_7b().with_rollout(max_sequences=64), Phase.ROLLOUT)
    assert exact.rollout.capture_sizes is not None and exact.rollout.capture_sizes[-1] == 64
    many = grpo_7b().with_rollout(max_sequences=512)
    assert rungs.fewer_graphs(many, Phase.ROLLOUT) == many


def lora_7b(*, stays_float32: bool) -> Workload:
    """Adapters beside a base in float32, whose engine sleeps on a card that is half full of it."""
    workload = grpo_7b()
    lora = Lora(rank=32, parameters=80_000_000, stays_float32=stays_float32)
    engine = replace(workload.actor.engine, lora=lora, stored_dtype=DType.FLOAT32)
    parallel = replace(engine.parallel, shard=1)
    return workload.with_actor(engine=replace(engine, parallel=parallel), update=dynamic(16384))


def short_case(*, stays_float32: bool = True) -> Case:
    """A card that is 2 GiB too small for the update."""
    workload = lora_7b(stays_float32=stays_float32)
    peak = case_of(workload).peak_bytes(Phase.UPDATE_ACTOR)
    gpu = replace(workload.cluster.gpu, memory_bytes=peak - 2 * GIB)
    return case_of(replace(workload, cluster=replace(workload.cluster, gpu=gpu)))


def test_a_base_of_adapters_in_float32_goes_before_anything_else() -> None:
    case = short_case()
    assert case.short(Phase.UPDATE_ACTOR) is not None
    update = (Phase.UPDATE_ACTOR,)
    assert ladder.due(case, rungs.base_in_compute_dtype, among=update) is Phase.UPDATE_ACTOR
    others = {rung for each in ladder.LADDERS for rung in each.rungs} - {rungs.base_in_compute_dtype}
    assert not [rung for rung in others if ladder.due(case, rung, among=update) is not None]


def test_a_base_whose_adapters_would_be_cast_is_no_rung() -> None:
    workload = lora_7b(stays_float32=False)
    assert rungs.base_in_compute_dtype(workload, Phase.UPDATE_ACTOR) == workload
