"""What FSDP copies around its collectives, against bytes counted by hand."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.dtypes import DType
from tuner.hardware import MeasuredGpu
from tuner.timing import fsdp
from tuner.timing.assumptions import (
    GRADIENT_CAST_SHARE,
    GRADIENT_COPY_SHARE,
    GRADIENT_TILE_S,
    HOST_THREAD_BYTES_PER_S,
)
from tuner.timing.job import TimedPasses, head_of
from tuner.timing.rates import copy_bytes_per_s
from tuner.timing.sharded_copies import (
    accumulating_seconds,
    gradient_copy_seconds,
    reducing_copy_seconds,
    reducing_host_seconds,
)
from tuner.workload import Backend, Lora, Workload

SHARD = (4 + 2) / 8  # an eighth of the weights is cast from float32
IN_PLACE = (2 + 2) / 8  # and put where the others are gathered
CAST = (2 + 4) / GRADIENT_CAST_SHARE  # gradients of bfloat16 into a buffer of float32
#: FSDP1 of eight ranks: joined, cast, divided by four, and the share of the sum by two.
JOINED = 2 + 2 + 2 + 4 + 2 * 4 + 2 * 4 / 8
#: The same in bfloat16, which needs no cast, with what is added in the dtype of the weights.
HALVED = tuple(2 + 2 + 2 * 2 + 2 * 2 / 8 + added for added in (0, 3 * 4 / 8, 3 * 4 / 8))


def update_job(workload: Workload) -> TimedPasses:
    return TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=workload.actor_update)


def layer_bytes(seconds: float, job: TimedPasses) -> float:
    """Bytes for each parameter of a layer that take so long at the rate of a copy."""
    return seconds * copy_bytes_per_s(job.cluster.gpu) / job.model.layer_parameters(0)


@pytest.mark.parametrize(
    ("workload", "forward", "backward"),
    [
        (workloads.grpo_7b(), 2 + 2 + SHARD + IN_PLACE, 2 + 2 + SHARD + IN_PLACE + CAST),
        (workloads.grpo_7b().with_actor_engine(backend=Backend.FSDP), SHARD, SHARD + JOINED),
        (
            workloads.grpo_7b().with_actor_engine(stored_dtype=DType.BFLOAT16),
            2 + 2 + IN_PLACE,
            4 + IN_PLACE + CAST,
        ),
        (workloads.grpo_7b(gpus_per_node=1), 2 + 2 + 4 + 2, 2 + 2 + 4 + 2 + CAST + 4 + 4),
    ],
    ids=["fsdp2", "fsdp", "fsdp2 of bfloat16", "fsdp2 on one GPU"],
)
def test_what_is_gathered_is_copied_where_the_engine_does_so(
    workload: Workload, forward: float, backward: float
) -> None:
    """FSDP2 into the buffer of the gather, out of it, and into that of the reduction; both engines cast."""
    job = update_job(workload)
    assert layer_bytes(fsdp.forward_span(job).copies, job) == pytest.approx(forward)
    assert layer_bytes(fsdp.backward_span(job, reduces=True).copies, job) == pytest.approx(backward)


def test_one_gpu_copies_gradients_that_nobody_adds_to() -> None:
    """Into a buffer and out of it again, on a stream before which those that compute wait."""
    alone, shared = (
        update_job(workloads.grpo_7b(gpus_per_node=gpus).with_actor_engine(reduce_dtype=reduced))
        for gpus, reduced in ((1, DType.BFLOAT16), (2, DType.BFLOAT16))
    )
    kept, reduced = (
        layer_bytes(reducing_copy_seconds(job, job.model.layer_parameters(0)), job) for job in (alone, shared)
    )
    assert reduced == pytest.approx((2 + 2) / GRADIENT_COPY_SHARE)
    assert kept == pytest.approx(reduced + 2 + 2)


def test_gradients_that_stay_whole_are_cast_and_not_copied() -> None:
    job = update_job(workloads.grpo_7b(gpus_per_node=1))
    spans = [fsdp.backward_span(job, reduces=reduces) for reduces in (True, False)]
    assert layer_bytes(spans[0].copies - spans[1].copies, job) == pytest.approx(CAST + 4 + 4 - (2 + 4))


def test_experts_are_copied_whole_however_few_of_them_a_token_reaches() -> None:
    job = update_job(replace(workloads.grpo_7b(gpus_per_node=1), model=workloads.QWEN3_30B_A3B))
    assert job.layer.active_parameters < 0.2 * job.layer.parameters
    copied = fsdp.backward_span(job, reduces=True).copies
    assert layer_bytes(copied, job) == pytest.approx(2 + 2 + 4 + 2 + CAST + 4 + 4)


def test_the_host_lists_which_gradient_each_block_of_the_kernel_copies() -> None:
    """A block for every 2,048 bytes of float32 that a rank keeps: 512 of a layer's parameters."""
    for ranks in (1, 2, 8):
        job = update_job(replace(workloads.grpo_7b(gpus_per_node=ranks), model=workloads.QWEN3_30B_A3B))
        launched, kept = (fsdp.backward_span(job, reduces=reduces).launch for reduces in (True, False))
        blocks = job.model.layer_parameters(0) / ranks / 512
        assert launched - kept == pytest.approx(blocks * GRADIENT_TILE_S)
    first = update_job(workloads.grpo_7b().with_actor_engine(backend=Backend.FSDP))
    launched, kept = (fsdp.backward_span(first, reduces=reduces).launch for reduces in (True, False))
    assert launched == kept


def test_a_host_that_was_measured_lists_them_faster_or_slower() -> None:
    workload = workloads.grpo_7b()
    measured = MeasuredGpu(date="2026-11-28", versions=(), host_factor=2.0)
    faster = replace(workload.cluster, gpu=replace(workload.cluster.gpu, measured=measured))
    typical, fast = (
        reducing_host_seconds(update_job(replace(workload, cluster=cluster)), 1e9)
        for cluster in (workload.cluster, faster)
    )
    assert fast == pytest.approx(typical / 2)


SUMMED = (4 + 4) / GRADIENT_COPY_SHARE  # a sum of float32 into a buffer of float32


@pytest.mark.parametrize(
    ("changes", "first", "between", "last"),
    [
        ({}, CAST, CAST + 3 * 4 / 8, CAST + 3 * 4 / 8),
        ({"stored_dtype": DType.BFLOAT16}, CAST, CAST + 3 * 2 / 8, CAST + 3 * 2 / 8),
        ({"deferred_gradient_sync": True}, 2 + 4, 4 + 4 + 2, 4 + 4 + 2 + SUMMED),
        ({"deferred_gradient_sync": True, "reduce_dtype": DType.BFLOAT16}, 0, 6, 6 + 4 / GRADIENT_COPY_SHARE),
        ({"backend": Backend.FSDP}, JOINED, JOINED + 3 * 4 / 8, JOINED + 3 * 4 / 8),
        ({"backend": Backend.FSDP, "reduce_dtype": DType.BFLOAT16}, *HALVED),
        ({"backend": Backend.FSDP, "deferred_gradient_sync": True}, 0, 3 * 2, 3 * 2 + JOINED),
    ],
    ids=["fsdp2", "of bfloat16", "whole", "whole, of bfloat16", "fsdp", "fsdp, reduced so", "fsdp, whole"],
)
def test_bytes_of_a_gradient_in_each_micro_batch(
    changes: dict[str, object], first: float, between: float, last: float
) -> None:
    """Those of all micro-batches but the first are added to the ones before."""
    job = update_job(workloads.grpo_7b().with_actor_engine(**changes))
    deferred = job.engine.deferred_gradient_sync
    kinds = ((not deferred, False), (not deferred, True), (True, True))
    for expected, (reduces, accumulates) in zip((first, between, last), kinds, strict=True):
        copied = gradient_copy_seconds(job, 1e9, reduces=reduces, accumulates=accumulates)
        assert copied * copy_bytes_per_s(job.cluster.gpu) / 1e9 == pytest.approx(expected)
    count = job.micro.count
    assert count > 2
    forward = fsdp.forward_span(job).copies
    of_layers, outside = 0.0, 0.0
    for times, (reduces, accumulates) in zip((1, count - 2, 1), kinds, strict=True):
        backward = fsdp.backward_span(job, reduces=reduces, accumulates=accumulates).copies
        of_layers += times * job.model.layers * (forward + backward)
        outside += times * fsdp.root_copies(job, reduces=reduces, accumulates=accumulates)
    assert fsdp.pass_parts(job)["copies"] == pytest.approx(of_layers + outside)


def test_adapters_alone_are_added() -> None:
    lora = Lora(rank=8, parameters=28 * 10**6)
    job = update_job(workloads.grpo_7b().with_actor_engine(lora=lora))
    spans = [fsdp.backward_span(job, reduces=True, accumulates=accumulates) for accumulates in (True, False)]
    added = (spans[0].copies - spans[1].copies) * copy_bytes_per_s(job.cluster.gpu)
    assert added == pytest.approx(10**6 * 3 * 4 / 8)


def test_the_host_adds_gradients_that_live_there() -> None:
    job = update_job(workloads.grpo_7b().with_actor_engine(streamed_offload=True))
    assert accumulating_seconds(job, 8e9) == pytest.approx(1e9 * 3 * 4 / HOST_THREAD_BYTES_PER_S)


def test_additions_hide_where_the_gpu_waits_for_launches_anyway() -> None:
    workload = workloads.grpo_7b().with_batch(
        prompts=64, mini_batch_prompts=64, responses_per_prompt=1, max_prompt_tokens=8, max_response_tokens=8
    )
    job = update_job(workload)
    spans = [fsdp.backward_span(job, reduces=True, accumulates=accumulates) for accumulates in (True, False)]
    assert spans[0].copies > spans[1].copies
    assert sum(spans[0].parts().values()) == pytest.approx(sum(spans[1].parts().values()))


def test_a_pass_without_gradients_adds_none() -> None:
    workload = workloads.grpo_7b()
    step_pass = replace(workload.actor_update, training=False)
    job = TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)
    parts, count = fsdp.pass_parts(job), job.micro.count
    assert count > 1
    assert parts["head"] == pytest.approx(count * head_of(job, trains=False))
    assert head_of(job, trains=False) < head_of(job, trains=True)
    of_layers = job.model.layers * fsdp.forward_span(job).copies
    outside = fsdp.root_copies(job, reduces=True)
    assert parts["copies"] == pytest.approx(count * (of_layers + outside))
