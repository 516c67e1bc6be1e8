"""Memory that an update leaves free: by its formula, and what recorded updates had reserved beyond it."""

from statistics import median, quantiles

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.accuracy import read_records, workload_of
from tuner.accuracy.passes import card_of, pass_time
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
