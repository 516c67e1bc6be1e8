"""Memory that an update leaves free: by its formula, and what recorded updates had reserved beyond it."""

import json
from statistics import median, quantiles

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.accuracy import read_records, workload_of
from tuner.accuracy.passes import card_of, pass_time
from tuner.timing import assumptions as assume
from tuner.timing import step_time
from tuner.timing.freed import freed_bytes
from tuner.timing.job import TimedPasses
from tuner.timing.spreads import FREED
from tuner.workload import Checkpointing, HeadKind, Phase, Workload


def update_of(workload: Workload) -> TimedPasses:
    step_pass = next(one for one in workload.passes() if one.phase is Phase.UPDATE_ACTOR)
    return TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)


def test_roots_of_moments_where_micro_batches_are_small() -> None:
    """Gradients and roots, 4 bytes each for a rank's share of all parameters."""
    small = workloads.grpo_7b().with_batch(max_prompt_tokens=8, max_response_tokens=8)
    job = update_of(small)
    share = job.model.parameters / job.engine.parallel.shard
    assert freed_bytes(job) == pytest.approx(8 * share)
    fused = update_of(small.with_actor_engine(fused_optimizer=True))
    assert freed_bytes(fused) < 7.6 * share


def test_kept_activations_and_logits() -> None:
    """Every layer's where nothing is recomputed; none of the logits where a fused head makes them."""
    job = update_of(workloads.grpo_7b())
    tokens, model = job.micro.tokens, job.model
    kept = update_of(workloads.grpo_7b().with_actor_engine(checkpointing=Checkpointing.NONE))
    of_layer = 8 * model.hidden + 2 * (model.heads + model.kv_heads) * model.head_dim + 4 * model.intermediate
    more = tokens * 2 * ((model.layers - 1) * of_layer - model.layers * model.hidden)
    assert freed_bytes(kept) - freed_bytes(job) == pytest.approx(more)
    pass_ = replace(kept.step_pass, head=replace(kept.step_pass.head, kind=HeadKind.FUSED_TORCH))
    bare = TimedPasses(cluster=kept.cluster, batch=kept.batch, step_pass=pass_)
    assert freed_bytes(kept) - freed_bytes(bare) == pytest.approx(tokens * model.vocab * 3 * 2)


def test_more_is_given_back_behind_larger_micro_batches() -> None:
    workload = workloads.grpo_7b().with_rollout(frees_memory=True)
    kept = workload.with_actor_engine(checkpointing=Checkpointing.NONE)
    few, many = (
        dict(step_time(one, concurrent_sequences=64).phase(Phase.UPDATE_WEIGHTS).parts)["given_back"]
        for one in (workload, kept)
    )
    assert many > 1.5 * few > 0


def test_pages_that_were_given_back_are_taken_again_once() -> None:
    """By the first update of a step that needs them; nothing where blocks are given back, or nothing is."""
    ppo = workloads.ppo_7b().with_rollout(frees_memory=True)
    assert ppo.sync is not None

    def taken(maps_pages: bool, **rollout: object) -> dict[Phase, float]:
        workload = replace(ppo.with_rollout(**rollout), sync=replace(ppo.sync, maps_pages=maps_pages))
        times = step_time(workload, concurrent_sequences=64).phases
        return {one.phase: dict(one.parts).get("taken_pages", 0.0) for one in times}

    pages = taken(True)
    critic, actor = (
        freed_bytes(TimedPasses(cluster=ppo.cluster, batch=ppo.batch, step_pass=one))
        for one in ppo.passes()
        if one.training
    )
    of_node = ppo.cluster.gpus_per_node * assume.TAKEN_SHARE / assume.TAKEN_PAGES_BYTES_PER_S
    assert pages[Phase.UPDATE_CRITIC] == pytest.approx(critic * of_node)
    assert pages[Phase.UPDATE_ACTOR] == pytest.approx(max(0.0, actor - critic) * of_node)
    assert sum(pages.values()) == pages[Phase.UPDATE_CRITIC] + pages[Phase.UPDATE_ACTOR] > 0
    assert not any(taken(False).values())
    assert not any(taken(True, colocated=False).values())


def test_pages_are_taken_as_fast_as_was_measured() -> None:
    runs = json.loads((RECORDED / "segments-2xh200.json").read_text())["runs"]
    rates = sorted(
        1e9 * run["ranks"] * one["taken"]
        for run in runs
        if "pages" in run
        for one in run["pages"]["mapped_pages"][1:]
    )
    assert median(rates) == pytest.approx(assume.TAKEN_PAGES_BYTES_PER_S, rel=0.02)


def test_recorded_updates_reserve_as_much() -> None:
    """Eight of ten lie between the ends of the spread, and half of them below 1.1 times the formula."""
    ratios = []
    for path in sorted(RECORDED.glob("verl-0.9.1-fsdp-*.json")):
        measured = read_records(path)
        for case in measured.cases:
            if not case.trains or not case.peak_reserved_bytes:
                continue
            time = pass_time(workload_of(case), card_of(measured), training=True)
            assert time.job is not None
            taken = case.peak_reserved_bytes - case.allocated_before_bytes
            ratios.append(taken / freed_bytes(time.job))
    assert len(ratios) > 300
    tenths = quantiles(ratios, n=10)
    assert (tenths[0], tenths[-1]) == pytest.approx((FREED.low, FREED.high), abs=0.02)
    assert median(ratios) == pytest.approx(1.08, abs=0.03)
