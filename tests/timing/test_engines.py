"""What one training engine computes, sends and copies, against arithmetic done by hand."""

import json
from statistics import median

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.dtypes import DType
from tuner.timing import fsdp, megatron
from tuner.timing.assumptions import (
    COLLECTION_ALONE_S,
    COLLECTIVE_S,
    CUT_SEQUENCE_S,
    FUSED_ADAMW_ACCESSES,
    HOST_ADAMW_ACCESSES,
    HOST_FUSED_ADAMW_ACCESSES,
    HOST_THREAD_BYTES_PER_S,
    LINK_SHARE,
    MEMORY_SHARE,
    NETWORK_HOP_S,
    NODE_HOP_S,
)
from tuner.timing.decode import RolloutInput, weight_read_bytes
from tuner.timing.job import TimedPasses
from tuner.timing.rates import copy_bytes_per_s, product_flop_per_s
from tuner.timing.spreads import ENDS, cause_of
from tuner.timing.transfers import optimizer_parts, state_transfer_parts, trained_values, weights_held
from tuner.timing.weight_sync import sync_parts
from tuner.workload import Checkpointing, Lora, Phase, Travel, Workload


def update_job(workload: Workload, *, trains: bool = True) -> TimedPasses:
    step_pass = replace(workload.actor_update, training=trains)
    return TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=step_pass)


def test_a_layer_reads_its_weights_however_few_the_tokens():
    workload = workloads.grpo_7b().with_batch(
        prompts=8, mini_batch_prompts=8, responses_per_prompt=1, max_prompt_tokens=1, max_response_tokens=1
    )
    gpu = workload.cluster.gpu
    read = workload.model.layer_parameters(0) * 2 / (gpu.memory_bytes_per_s * MEMORY_SHARE)
    assert read <= update_job(workload).compute.forward < read + 0.15e-3  # what small kernels take


def test_recomputation_exchanges_sequences_once_more():
    workload = workloads.grpo_7b()
    split = replace(workload.actor.engine.parallel, ulysses=4)
    workload = workload.with_actor_engine(parallel=split)
    without = workload.with_actor_engine(checkpointing=Checkpointing.NONE)
    forward = fsdp.forward_span(update_job(workload)).exchange
    assert forward > 0
    assert fsdp.backward_span(update_job(workload), reduces=True).exchange == 2 * forward
    assert fsdp.backward_span(update_job(without), reduces=True).exchange == forward


def test_sequence_exchange_moves_queries_keys_values_and_output():
    workload = workloads.grpo_7b()
    job = update_job(workload.with_actor_engine(parallel=replace(workload.actor.engine.parallel, ulysses=4)))
    values = job.micro.tokens * 128 * (28 + 4 + 4 + 28)
    expected = values * 2 * 3 / 4 / (450e9 * LINK_SHARE) + COLLECTIVE_S + NODE_HOP_S
    assert fsdp.sequence_exchange_seconds(job) == pytest.approx(expected)


def test_megatron_shares_gradients_once_per_optimizer_step():
    workload = workloads.grpo_32b_megatron()
    job = update_job(workload)
    held = workload.model.parameters / 8  # tensor 4, pipeline 2
    rate = 2 * 50e9 * LINK_SHARE  # of four data-parallel ranks, two stand in each node
    expected = held * (4 + 2) * 3 / 4 / rate + 2 * (COLLECTIVE_S + 2 * NODE_HOP_S + NETWORK_HOP_S)
    assert megatron.gradient_sync_seconds(job) == pytest.approx(expected)
    total = megatron.pass_parts(job)["communication"]
    assert total == pytest.approx(expected + job.micro.count * megatron.stage_parts(job)["communication"])


def test_the_bubble_is_a_share_of_the_work():
    job = update_job(workloads.grpo_32b_megatron())
    parts = megatron.pass_parts(job)
    work = sum(seconds for name, seconds in parts.items() if name != "bubble")
    work -= megatron.gradient_sync_seconds(job)
    assert parts["bubble"] == pytest.approx(work * (2 - 1) / job.micro.count)


def test_pieces_of_a_stage_shorten_the_bubble_and_uneven_stages_wait_for_the_largest():
    workload = workloads.grpo_32b_megatron()
    parallel = workload.actor.engine.parallel
    whole, pieces, uneven = (
        update_job(workload.with_actor_engine(parallel=replace(parallel, **changed)))
        for changed in ({}, {"virtual_pipeline": 4}, {"first_stage_layers": 24})
    )
    turn = sum(megatron.stage_parts(pieces).values())
    assert megatron.pass_parts(pieces)["bubble"] == pytest.approx(turn / 4)
    even = megatron.stage_parts(whole)["compute"]
    assert megatron.stage_parts(uneven)["compute"] == pytest.approx(even * 40 / 32)


def test_sequences_are_cut_out_one_by_one():
    """Ids, labels, mask and log-probabilities of every sequence, and its entropy where that is asked for."""
    base = workloads.grpo_32b_megatron().with_batch(travel=Travel.PADDED)
    job = update_job(base)
    sequences = base.batch.mini_batch_sequences / job.engine.parallel.data / job.micro.count
    loops = 5 if job.step_pass.entropy else 4
    assert megatron.packing_seconds(job) == pytest.approx(loops * sequences * CUT_SEQUENCE_S)
    knows = update_job(base.with_batch(travel=Travel.PACKED))
    assert 0 < megatron.packing_seconds(knows) < megatron.packing_seconds(job)


def test_states_held_by_one_gpu():
    dense = workloads.grpo_7b()
    assert weights_held(dense.model, dense.actor.engine) == dense.model.parameters / 8
    lora = workloads.grpo_lora_7b()
    assert trained_values(lora.model, lora.actor.engine) == pytest.approx(161_480_704 / 8)
    megatron_job = workloads.grpo_32b_megatron()
    held = megatron_job.model.parameters / 8
    assert weights_held(megatron_job.model, megatron_job.actor.engine) == held
    assert trained_values(megatron_job.model, megatron_job.actor.engine) == held / 4
    moe = workloads.grpo_moe_30b()
    experts = moe.model.layers * moe.model.expert_parameters
    rest = moe.model.parameters - experts
    assert weights_held(moe.model, moe.actor.engine) == pytest.approx(rest / 2 + experts / 8)
    # 8 of 16 ranks have the same half of the rest, and 2 the same experts
    assert trained_values(moe.model, moe.actor.engine) == pytest.approx(rest / 2 / 8 + experts / 8 / 2)


def test_the_optimizer_runs_where_its_states_are():
    workload = workloads.grpo_32b_megatron()
    engine, gpu = workload.actor.engine, workload.cluster.gpu
    on_gpu = optimizer_parts(workload.model, engine, gpu)
    moved = trained_values(workload.model, engine) * FUSED_ADAMW_ACCESSES * 4
    assert on_gpu == {"optimizer": pytest.approx(moved / (gpu.memory_bytes_per_s * MEMORY_SHARE))}
    half, whole = (
        optimizer_parts(workload.model, replace(engine, optimizer_offload_fraction=share), gpu)
        for share in (0.5, 1.0)
    )
    assert half["optimizer"] == pytest.approx(on_gpu["optimizer"] / 2)
    assert half["host_optimizer"] == pytest.approx(whole["host_optimizer"] / 2)
    assert whole["host_optimizer"] > 10 * on_gpu["optimizer"]


def test_a_fused_step_moves_less() -> None:
    """12 accesses a value where a list of tensors takes 27; what the host takes is the same."""
    workload = workloads.grpo_7b()
    engine, gpu = workload.actor.engine, workload.cluster.gpu
    fused = replace(engine, fused_optimizer=True)
    listed, once = (optimizer_parts(workload.model, one, gpu)["optimizer"] for one in (engine, fused))
    saved = trained_values(workload.model, engine) * (27 - 12) * 4
    assert listed - once == pytest.approx(saved / copy_bytes_per_s(gpu))


def test_one_thread_of_the_host_steps_operator_by_operator() -> None:
    """A worker has one thread: 9 to 23 GB/s of the 100 bytes that AdamW and clipping move a value."""
    workload = workloads.grpo_7b(gpus_per_node=2).with_actor_engine(streamed_offload=True)
    engine, gpu = workload.actor.engine, workload.cluster.gpu
    parts = optimizer_parts(workload.model, engine, gpu)
    assert parts["optimizer"] == 0
    moved = trained_values(workload.model, engine) * (3 + 2 + 3 + 5 + 6 + 4 + 2) * 4
    assert moved / 23e9 < parts["host_optimizer"] < moved / 9e9
    spread = cause_of(Phase.UPDATE_ACTOR, "host_optimizer").spread
    assert spread.low < 0.75
    assert spread.high > 1.4


def test_a_thread_of_the_host_moves_as_much_as_was_measured() -> None:
    """Operator by operator 100 bytes of a value, by the fused kernel 28, whose gradients the card clips."""
    readings = json.loads((RECORDED / "host-adamw.json").read_text())["readings"]
    rows = [row for reading in readings for row in reading["rows"]]
    plain = {row["tensors"]: [] for row in rows}
    for row in rows:
        if not row["fused"]:
            plain[row["tensors"]].append(4 * HOST_ADAMW_ACCESSES / row["ns_per_value"])
    fused = [4 * HOST_FUSED_ADAMW_ACCESSES / row["step"]["ns_per_value"] for row in rows if row["fused"]]
    rates = [*fused, *(rate for part in plain.values() for rate in part)]
    least, most = ENDS["HOST_THREAD_BYTES_PER_S"]
    assert (min(rates), max(rates)) == pytest.approx((least / 1e9, most / 1e9), rel=0.01)
    large = median([*plain[1], *plain[16]])  # of 32 MiB and more
    assert large == pytest.approx(HOST_THREAD_BYTES_PER_S / 1e9, rel=0.05)


def test_what_lives_on_the_host_is_not_moved_there_and_back():
    workload = workloads.grpo_32b_megatron()
    gpu, engine = workload.cluster.gpu, replace(workload.actor.engine, optimizer_offload=True)

    def seconds(**changes: object) -> float:
        return sum(
            state_transfer_parts(workload.model, replace(engine, **changes), gpu, trains=True).values()
        )

    weights = seconds(optimizer_offload_fraction=1.0)  # and garbage that is collected
    assert weights == seconds(optimizer_offload=False) + 2 * COLLECTION_ALONE_S
    assert weights - seconds(optimizer_offload_fraction=1.0, collects_garbage=False) == pytest.approx(
        2 * COLLECTION_ALONE_S
    )
    moved = seconds() - weights  # two moments and the main weights
    assert moved > 0
    assert seconds(optimizer_offload_fraction=0.5) - weights == pytest.approx(moved / 2)
    kept = seconds(optimizer_offload_fraction=1.0, main_weights_offloaded=False) - weights
    assert kept == pytest.approx(moved / 3)


def test_expert_parallelism_divides_the_experts_an_engine_reads():
    moe = workloads.grpo_moe_30b().with_rollout(tensor_parallel=1)
    wide = moe.with_rollout(data_parallel=8, expert_parallel=8)
    experts = moe.model.layers * moe.model.expert_parameters * 2
    saved = weight_read_bytes(RolloutInput.of(moe), 10_000) - weight_read_bytes(RolloutInput.of(wide), 10_000)
    assert saved == pytest.approx(experts * 7 / 8, rel=1e-6)
    assert weight_read_bytes(RolloutInput.of(moe), 1) == pytest.approx(moe.model.active_parameters * 2)


def test_rates_by_dtype():
    gpu = workloads.H100
    assert product_flop_per_s(gpu, DType.FLOAT32) == product_flop_per_s(gpu, DType.BFLOAT16) / 2
    assert product_flop_per_s(gpu, DType.FLOAT8) > 1.9 * product_flop_per_s(gpu, DType.BFLOAT16)
    no_fp8 = replace(gpu, dense_fp8_flop_per_s=None)
    assert product_flop_per_s(no_fp8, DType.FLOAT8) == product_flop_per_s(gpu, DType.BFLOAT16)


def test_weights_are_made_8_bit_again_in_every_sync():
    """bfloat16 is read and a byte written; float32 is cast first. The vocabulary's matrices stay."""
    whole = workloads.grpo_7b()
    half = whole.with_actor(engine=replace(whole.actor.engine, stored_dtype=DType.BFLOAT16))
    model, rate = whole.model, copy_bytes_per_s(whole.cluster.gpu)
    products = model.parameters - 2 * model.vocab * model.hidden
    quantizing = {
        name: sync_parts(workload.with_rollout(weight_dtype=DType.FLOAT8))["quantizing"]
        for name, workload in {"float32": whole, "bfloat16": half}.items()
    }
    assert quantizing["bfloat16"] == pytest.approx(3 * products / rate)
    assert quantizing["float32"] == pytest.approx((4 + 2 + 3) * products / rate)
    assert sync_parts(whole)["quantizing"] == 0
    operators = replace(half, sync=replace(half.sync, quantizes_in_one_kernel=False))
    slower = sync_parts(operators.with_rollout(weight_dtype=DType.FLOAT8))["quantizing"]
    assert slower == pytest.approx((6 + 8 + 8 + 4 + 8 + 8 + 5 + 2) * products / rate)


def test_adapters_are_not_made_8_bit():
    adapted = workloads.grpo_7b()
    engine = replace(adapted.actor.engine, lora=Lora(rank=32, parameters=80_000_000))
    alone = adapted.with_actor(engine=engine).with_rollout(weight_dtype=DType.FLOAT8)
    merged = replace(engine, lora=replace(engine.lora, merged_for_rollout=True))
    assert sync_parts(alone)["quantizing"] == 0
    assert sync_parts(alone.with_actor(engine=merged))["quantizing"] > 0
