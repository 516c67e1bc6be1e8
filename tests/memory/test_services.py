"""What a reward model takes of the trainer's cards, and when."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import workloads
from tuner import memory
from tuner.dtypes import DType
from tuner.memory import Item, Term
from tuner.memory.process.overhead import CONTEXT, ENGINE_BUFFERS, ENGINE_KERNELS
from tuner.memory.rollout.capacity import held_at_start
from tuner.memory.rollout.services import services_at_rest
from tuner.model_shape import ModelShape
from tuner.timing import step_time
from tuner.units import MIB
from tuner.workload import (
    Backend,
    Checkpointing,
    FractionOf,
    Parallelism,
    Phase,
    Service,
    ServiceRole,
    Workload,
)

JUDGE = replace(workloads.QWEN25_7B, value_head=True)
JUDGE_BYTES = 2 * (7_615_616_512 - 152_064 * 3_584 + 3_585)  # one column in the projection's place


def served(*, model: ModelShape | None = JUDGE, shares: bool = True, **settings: object) -> Service:
    """A reward model of 7B on vLLM, a replica of one GPU."""
    rollout = workloads.rollout(gpus=8, tensor_parallel=1)
    chosen = {"memory_fraction": 0.4, "sampler_bytes": 0, "cuda_graphs": False, "sleep_level": 1, **settings}
    return Service(
        role=ServiceRole.REWARD,
        name="judge",
        model=model,
        gpus=8,
        shares_gpus=shares,
        server=None if model is None else replace(rollout, colocated=shares, **chosen),
    )


def scored(backend: Backend = Backend.FSDP, *, gpus: int = 8, model: ModelShape = JUDGE) -> Service:
    """A reward model of 7B on the trainer's FSDP, its weights on the host."""
    engine = replace(
        workloads.fsdp_engine(gpus=gpus, backend=backend),
        parallel=Parallelism(gpus=gpus, shard=gpus),
        stored_dtype=DType.BFLOAT16,
        checkpointing=Checkpointing.NONE,
        streamed_offload=True,
        param_offload=False,
        optimizer_offload=False,
        frees_root=backend is Backend.FSDP,
    )
    return Service(
        role=ServiceRole.REWARD,
        name="judge",
        model=model,
        gpus=gpus,
        shares_gpus=True,
        engine=engine,
        scoring=workloads.static(4),
    )


def job(*services: Service) -> Workload:
    return replace(workloads.grpo_7b(), services=services)


def peaks(workload: Workload) -> dict[Phase, int]:
    return {phase.phase: phase.peak_bytes for phase in memory.estimate(workload).phases}


def terms(workload: Workload, phase: Phase) -> dict[str, Term]:
    found = memory.estimate(workload).phase(phase)
    assert found is not None
    return {term.name: term for term in found.peak.terms}


# -- on an inference engine --------------------------------------------------------------------


def test_awake_it_takes_its_share_and_asleep_its_process():
    """Weights of 7,070,622,705 parameters in bfloat16; a replica of one GPU has no communicator."""
    workload = job(served())
    awake, asleep = terms(workload, Phase.REWARD), terms(workload, Phase.UPDATE_ACTOR)
    card = workload.cluster.gpu.capacity_bytes
    assert awake["reward_engine_weights"].bytes == JUDGE_BYTES
    parts = [term.bytes for term in awake.values() if term.item is Item.SERVICE]
    on_top = CONTEXT.typical + ENGINE_BUFFERS.typical - ENGINE_KERNELS.typical
    assert sum(parts) == pytest.approx(ceil(0.4 * card) + on_top, abs=1)
    names = {name for name, term in asleep.items() if term.item is Item.SERVICE}
    assert names == {"reward_engine_process", "reward_engine_buffers"}


def test_the_rollout_engine_sleeps_while_it_judges():
    workload = job(served())
    judging, generating = terms(workload, Phase.REWARD), terms(workload, Phase.ROLLOUT)
    assert "kv_cache" not in judging
    assert "engine_process" in judging
    assert "reward_kv_cache" not in generating
    assert "reward_engine_process" in generating


def test_one_that_never_sleeps_stays_in_every_phase():
    workload = job(served(frees_memory=False))
    for phase in memory.estimate(workload).phases:
        assert all("reward_kv_cache" in {term.name for term in moment.terms} for moment in phase.moments)


def test_it_adds_the_same_to_every_phase_but_its_own():
    without, beside = peaks(job()), peaks(job(served()))
    rest = sum(term.bytes for term in services_at_rest(job(served())))
    assert rest > 0
    assert {phase: beside[phase] - before for phase, before in without.items()} == dict.fromkeys(
        without, rest
    )
    assert set(beside) - set(without) == {Phase.REWARD}


def test_the_rollout_engine_starts_beside_it():
    workload = job(served()).with_rollout(fraction_of=FractionOf.STATIC_POOL)
    apart = workload.with_rollout(colocated=False)
    rest = services_at_rest(workload)
    assert held_at_start(workload)[-len(rest) :] == rest
    assert held_at_start(apart) == ()
    alone = replace(workload, services=())
    caches = [terms(each, Phase.ROLLOUT)["kv_cache"].bytes for each in (alone, workload)]
    assert caches[0] > caches[1]


def test_one_that_starts_first_meets_an_empty_card():
    late = served(fraction_of=FractionOf.STATIC_POOL)
    early = replace(late, starts_first=True)
    caches = [terms(job(each), Phase.REWARD)["reward_kv_cache"].bytes for each in (late, early)]
    assert caches[0] < caches[1]


def test_its_weights_wait_on_the_host():
    host = {term.name: term.bytes for term in memory.estimate(job(served())).host_terms}
    assert host["reward_weights"] == 8 * JUDGE_BYTES
    dropped = memory.estimate(job(served(sleep_level=2)))
    assert "reward_weights" not in {term.name for term in dropped.host_terms}


def test_it_cannot_start_without_room_for_a_cache():
    (problem,) = memory.estimate(job(served(memory_fraction=0.15))).problems
    assert problem == (
        "the reward model's engine's share of memory holds its weights and activations, but no KV cache"
    )
    alone = served(memory_fraction=0.15, shares=False)
    assert memory.estimate(job(alone)).problems == (problem,)


def test_gpus_of_its_own_leave_the_trainers_as_they_are():
    alone = served(shares=False)
    assert memory.estimate(job(alone)).phases == memory.estimate(job()).phases
    assert memory.estimate(job(alone)).host_bytes == memory.estimate(job()).host_bytes


def test_one_of_unknown_size_takes_nothing():
    assert memory.estimate(job(served(model=None))).phases == memory.estimate(job()).phases


@given(st.floats(0.3, 0.6), st.floats(0.0, 0.3))
def test_a_larger_fraction_never_takes_less(fraction, more):
    before, after = (peaks(job(served(memory_fraction=f))) for f in (fraction, fraction + more))
    assert all(before[phase] <= after[phase] for phase in before)
    assert before[Phase.UPDATE_ACTOR] == after[Phase.UPDATE_ACTOR]


@given(st.integers(4, 40), st.integers(0, 20))
def test_a_larger_model_never_leaves_more_cache(layers, more):
    caches = []
    for count in (layers, layers + more):
        workload = job(served(model=replace(JUDGE, layers=count), memory_fraction=0.9))
        caches.append(terms(workload, Phase.REWARD)["reward_kv_cache"].bytes)
    assert caches[0] >= caches[1]


# -- on the trainer's engine -------------------------------------------------------------------


@pytest.mark.parametrize("backend", [Backend.FSDP, Backend.FSDP2])
def test_its_forward_pass_is_a_phase_beside_idle_models(backend):
    workload = job(scored(backend))
    scoring = terms(workload, Phase.REWARD)
    assert "reward_parameters" not in scoring
    assert any(term.item is Item.UNSHARDED for term in scoring.values())
    assert any(term.item is Item.OPTIMIZER for term in scoring.values())
    assert not any(term.item in (Item.KV_CACHE, Item.SERVICE) for term in scoring.values())
    host = {term.name: term.bytes for term in memory.estimate(workload).host_terms}
    # under FSDP1 as much again for gradients, each unit's shard as a power of two
    units = 8 * 2 * (256 + 28 * 64) * MIB
    assert host["reward_weights"] == (units if backend is Backend.FSDP else 8 * ceil(JUDGE_BYTES / 16) * 2)


def test_what_it_leaves_gathered_stays_in_the_other_phases():
    """FSDP2 before torch 2.8 keeps its root, here the norm of 3,584 and the column with its bias."""
    kept = replace(scored(Backend.FSDP2), engine=replace(scored(Backend.FSDP2).engine, keeps_root=True))
    without, beside = peaks(job()), peaks(job(kept))
    assert beside[Phase.UPDATE_ACTOR] - without[Phase.UPDATE_ACTOR] == 2 * (3_584 + 3_585)
    freed = peaks(job(scored(Backend.FSDP)))
    assert {phase: freed[phase] for phase in without} == without


@given(st.integers(1, 8), st.integers(0, 8))
def test_a_larger_micro_batch_never_takes_less(size, more):
    small, large = (
        peaks(job(replace(scored(), scoring=workloads.static(count)))) for count in (size, size + more)
    )
    assert small[Phase.REWARD] <= large[Phase.REWARD]
    assert small[Phase.UPDATE_ACTOR] == large[Phase.UPDATE_ACTOR]


# -- seconds -----------------------------------------------------------------------------------


@pytest.mark.parametrize("service", [served(), scored()])
def test_judging_takes_time(service):
    with_it, without = (step_time(each, concurrent_sequences=64) for each in (job(service), job()))
    judging = with_it.phase(Phase.REWARD)
    assert judging is not None
    assert judging.seconds > 0
    assert with_it.seconds == pytest.approx(without.seconds + judging.seconds)


def test_gpus_of_its_own_judge_while_responses_are_written():
    assert step_time(job(served(shares=False)), concurrent_sequences=64) == step_time(
        job(), concurrent_sequences=64
    )
