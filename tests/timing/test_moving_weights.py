"""Seconds of weights on their way: to the host, to the rollout engine, and what each tensor adds."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.timing import assumptions as assume
from tuner.timing import step_time
from tuner.timing.transfers import offloading_parts, pinned_seconds
from tuner.timing.weight_sync import sent_tensors, sync_parts
from tuner.workload import Backend, HostCopy, Lora, Phase, Workload

GRPO, MEGATRON, MOE = workloads.grpo_7b(), workloads.grpo_32b_megatron(), workloads.grpo_moe_30b()


def total(workload: Workload) -> float:
    return sum(sync_parts(workload).values())


def test_what_is_page_locked_goes_both_ways_at_the_speed_of_the_link():
    gpu, engine = GRPO.cluster.gpu, GRPO.actor.engine
    link = pinned_seconds(1e9, gpu)
    ways = {
        way: tuple(
            sum(
                offloading_parts(
                    1e9, replace(engine, host_copy=way), gpu, comes=comes, leaves=1 - comes
                ).values()
            )
            / link
            for comes in (0, 1)
        )
        for way in HostCopy
    }
    assert ways[HostCopy.PINNED] == (1, 1)
    assert ways[HostCopy.PAGEABLE][0] > 10
    assert ways[HostCopy.PAGEABLE][1] > 4
    assert ways[HostCopy.REPINNED][0] > ways[HostCopy.PAGEABLE][0]
    assert ways[HostCopy.REPINNED][1] == 1


def test_tensors_of_models():
    assert sent_tensors(GRPO) == 28 * 12 + 3  # what the safetensors of Qwen2.5-7B hold
    experts = replace(MOE, sync=replace(MOE.sync, experts_apart=True))
    assert sent_tensors(experts) == 48 * (12 - 3) + 48 * 128 * 3 + 3
    assert sent_tensors(MOE) == 48 * (12 - 3 + 2) + 3
    adapters = GRPO.with_actor_engine(lora=Lora(rank=32, parameters=80_000_000))
    assert sent_tensors(adapters) == 28 * 7 * 2


def test_experts_of_their_own_wait_for_the_host():
    """18,432 tensors of 3 MB: their bytes travel in less time than the host needs to name them."""
    apart = replace(MOE, sync=replace(MOE.sync, experts_apart=True))
    assert total(apart) > total(MOE) + 48 * 128 * 3 * assume.LOAD_TENSOR_S


def test_megatron_tells_every_name():
    parts = sync_parts(MEGATRON)
    assert parts["names"] > 64 * 7 * assume.OBJECT_COLLECTIVE_S
    fsdp = replace(MEGATRON.actor.engine, backend=Backend.FSDP2)
    assert sync_parts(MEGATRON.with_actor(engine=fsdp))["names"] == 0


def test_fsdp1_gathers_twice():
    first, second = (
        sync_parts(GRPO.with_actor_engine(backend=backend)) for backend in (Backend.FSDP, Backend.FSDP2)
    )
    assert first["gather"] > 2 * second["gather"]


def test_shards_that_stay_on_the_host_come_once():
    offloaded = GRPO.with_actor_engine(param_offload=True)
    fetched = replace(offloaded, sync=replace(offloaded.sync, stages_weights=False))
    assert sync_parts(fetched)["states"] == pytest.approx(sync_parts(offloaded)["states"] / 2)


def test_a_streamed_reference_is_fetched_between_layers_on_one_gpu_and_beside_them_on_two():
    """On one GPU what is fetched adds up with what is computed."""

    def seconds(gpus: int, *, streamed: bool) -> float:
        workload = workloads.grpo_0_5b(gpus_per_node=gpus)
        parallel = replace(workload.actor.engine.parallel, shard=gpus)
        engine = replace(
            workload.actor.engine, backend=Backend.FSDP2, parallel=parallel, streamed_offload=streamed
        )
        actor = workload.with_actor(engine=engine, log_prob=workloads.dynamic(65536))
        time = step_time(actor, concurrent_sequences=64)
        phase = time.phase(Phase.OLD_LOG_PROB)
        assert phase is not None
        return phase.seconds

    one, two = (seconds(gpus, streamed=True) - seconds(gpus, streamed=False) for gpus in (1, 2))
    workload = workloads.grpo_0_5b(gpus_per_node=1)
    held = workload.model.parameters * workload.actor.engine.stored_dtype.bytes
    assert one >= pinned_seconds(held, workload.cluster.gpu)
    assert two < one / 2


def test_waking_up_goes_by_the_share_of_the_card():
    low, high = (sync_parts(GRPO.with_rollout(memory_fraction=share))["wake_up"] for share in (0.3, 0.6))
    assert 0 < low < high
    assert sync_parts(GRPO.with_rollout(frees_memory=False))["wake_up"] == 0
