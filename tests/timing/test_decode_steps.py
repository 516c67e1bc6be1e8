"""One decoding step of the rollout engine: what the GPU does, what the host does, and which of both waits."""

import pytest
from msgspec import structs

from tests import workloads
from tuner.dtypes import DType
from tuner.gpus import find_gpu
from tuner.serving.graphs import largest_graph
from tuner.timing import assumptions as assume
from tuner.timing.decode import (
    RolloutInput,
    cache_read_bytes,
    gathering_seconds,
    product_curve,
    reduction_seconds,
    sampling_seconds,
    weight_read_bytes,
)
from tuner.timing.generation.rollout import rollout_seconds, waits_for_host
from tuner.timing.generation.step import decode_step_parts, step_prices
from tuner.timing.layer import average_layer, layer_product_seconds
from tuner.timing.rates import copy_bytes_per_s, product_flop_per_s
from tuner.timing.reads import cache_plane, weight_curve
from tuner.workload import Lora, RolloutEngine, Workload


def step_seconds(workload: Workload, sequences: int) -> float:
    return sum(decode_step_parts(RolloutInput.of(workload), sequences).values())


@pytest.mark.parametrize("sequences", [1, 100, 512, 513, 1000])
def test_the_host_works_beside_the_gpu_or_after_it(sequences: int) -> None:
    beside = workloads.grpo_7b().with_rollout(own_process=False)
    after = beside.with_rollout(overlaps_scheduling=False)
    host = assume.ENGINE_STEP_S + sequences * assume.ENGINE_SEQUENCE_S
    gpu = step_seconds(after, sequences) - host
    launches = 0.0
    if sequences > 512:  # the list of vLLM ends there
        kernels = assume.ENGINE_LAYER_KERNELS + 2  # with the reductions of two GPUs
        launches = beside.model.layers * kernels * assume.HOST_LAUNCH_S
    assert step_seconds(beside, sequences) == pytest.approx(max(gpu, host + launches))


def test_ranks_gather_the_logits_of_what_gets_a_token_and_log_probabilities_are_read_again() -> None:
    job = workloads.grpo_7b().with_rollout(tensor_parallel=4, overlaps_scheduling=False)
    inputs = RolloutInput.of(job)
    logits = job.model.vocab * 2 * 3 / 4  # three of four parts come from other ranks
    gathered = gathering_seconds(inputs, 8) / 8
    assert gathered == pytest.approx(logits / (job.cluster.gpu.link_bytes_per_s * assume.LINK_SHARE))
    assert gathering_seconds(RolloutInput.of(job.with_rollout(tensor_parallel=1)), 8) == 0
    drawn, prompts = (
        step_prices(inputs).parts(0, 0, sampled=sampled, prompt_tokens=64)[2] for sampled in (8, 0)
    )
    assert drawn - prompts == pytest.approx(8 * gathered)
    asked = RolloutInput.of(job.with_rollout(samples_log_probs=True))
    more = sampling_seconds(asked, 8) - sampling_seconds(inputs, 8)
    bytes_more = assume.LOG_PROB_SAMPLER_BYTES - assume.SAMPLER_BYTES
    assert more == pytest.approx(8 * job.model.vocab * bytes_more / copy_bytes_per_s(job.cluster.gpu))


def test_a_step_without_a_graph_takes_longer() -> None:
    """A step of a small model, which the host decides about, takes longer where no graph is replayed."""
    small = workloads.grpo_7b().with_rollout(tensor_parallel=4)
    graph = largest_graph(small.rollout)
    assert step_seconds(small, graph + 1) > 1.2 * step_seconds(small, graph)
    longer = small.with_rollout(capture_sizes=(*range(8, 1024, 8),))
    assert step_seconds(longer, graph + 1) < 1.01 * step_seconds(longer, graph)


def test_the_largest_graph_is_the_engines_or_the_configurations() -> None:
    rollout = workloads.grpo_7b().rollout
    assert largest_graph(rollout) == 512
    assert largest_graph(structs.replace(rollout, capture_sizes=(8, 64))) == 64
    assert largest_graph(structs.replace(rollout, cuda_graphs=False)) == 0
    assert largest_graph(structs.replace(rollout, engine=RolloutEngine.SGLANG)) is None


def test_a_small_model_waits_for_the_host_and_a_large_one_does_not() -> None:
    def waits(workload: Workload, most: int = 256) -> bool:
        inputs = RolloutInput.of(workload.with_rollout(max_sequences=most))
        return waits_for_host(inputs, concurrent_sequences=4096)

    large = workloads.grpo_7b().with_rollout(tensor_parallel=1, own_process=False)
    small = large.with_rollout(tensor_parallel=4)  # of whose weights each GPU reads a part
    assert waits(small) and not waits(large)
    assert not waits(small.with_rollout(overlaps_scheduling=False))
    assert not waits(small.with_rollout(cuda_graphs=False))  # it launches as many kernels for fewer sequences
    assert not waits(small, 8) and not waits(small, 16)
    halves = small.with_rollout(data_parallel=2)  # each engine replays a step of its half
    assert waits(halves, 64) and waits(halves, 512) and not waits(halves, 1024)
    assert not waits(small, 1024)
    apart = small.with_rollout(own_process=True)  # half of what the host does is less than the GPU does
    assert not waits(apart) and waits(apart.with_rollout(capture_sizes=(2048,)), 2048)


@pytest.mark.parametrize("ranks", [1, 4])
def test_products_of_few_tokens_are_those_of_their_shape(ranks: int) -> None:
    job = workloads.grpo_7b().with_rollout(tensor_parallel=ranks)
    curve, layer = product_curve(RolloutInput.of(job)), average_layer(job.model)
    gpu, bf16 = job.cluster.gpu, DType.BFLOAT16
    for tokens in (1, 100, 128, 200, 512, 3000, 20_000, 100_000):
        once = layer_product_seconds(layer, tokens, gpu, bf16, split=ranks)
        assert curve.at(tokens) == pytest.approx(job.model.layers * once, rel=0.03)
    at_peak = 2 * 256 * layer.active_parameters * job.model.layers / ranks / product_flop_per_s(gpu, bf16)
    assert curve.at(256) > 1.3 * at_peak  # as measured
    assert curve.at(8192) == pytest.approx(32 * curve.at(256), rel=0.5)


def test_a_step_of_few_tokens_takes_what_its_weights_take_to_read() -> None:
    job = workloads.grpo_7b().with_rollout(tensor_parallel=1)
    inputs, prices = RolloutInput.of(job), step_prices(RolloutInput.of(job))
    few, more = (prices.parts(tokens, 0, sampled=0, prompt_tokens=0)[0] for tokens in (8, 600))
    cached = [prices.cache.at(0, tokens) for tokens in (8, 600)]  # attention begins for no keys, too
    assert few - cached[0] == pytest.approx(weight_curve(inputs).at(8))
    products = product_curve(inputs).at(600)
    assert more - cached[1] == pytest.approx(products) and products > 1.2 * weight_curve(inputs).at(600)


@pytest.mark.parametrize("ranks", [1, 4])
def test_weights_are_read_matrix_by_matrix(ranks: int) -> None:
    """Near the bandwidth where matrices are large, and slower in the shards of tensor parallelism."""
    job = workloads.grpo_7b().with_rollout(tensor_parallel=ranks)
    inputs, gpu = RolloutInput.of(job), job.cluster.gpu
    rates = [
        weight_read_bytes(inputs, tokens) / weight_curve(inputs).at(tokens) / gpu.memory_bytes_per_s
        for tokens in (1, 64, 256)
    ]
    assert rates == sorted(rates, reverse=True)
    assert (0.70 < rates[0] < 0.83) if ranks == 1 else (0.50 < rates[0] < 0.72)
    assert weight_curve(inputs).at(10_000) == weight_curve(inputs).at(256)  # products tell the rest


def test_a_cache_is_read_near_the_bandwidth_where_it_is_large_alone() -> None:
    inputs = RolloutInput.of(workloads.grpo_7b().with_rollout(tensor_parallel=1))
    plane, bandwidth = cache_plane(inputs), inputs.cluster.gpu.memory_bytes_per_s
    reads = {
        (sequences, context): cache_read_bytes(inputs, sequences, context) / plane.at(context, sequences)
        for sequences, context in ((1, 100), (16, 256), (64, 1024), (1024, 4096))
    }
    shares = [rate / bandwidth for rate in reads.values()]
    assert shares == sorted(shares)
    assert shares[0] < 0.05 and 0.15 < shares[1] < 0.3 and 0.65 < shares[2] < 0.75 and 0.88 < shares[3] < 0.92


def test_a_card_without_tables_of_reading_takes_the_reference_s_by_its_bandwidth() -> None:
    job, a100 = workloads.grpo_7b(), find_gpu("a100-sxm-80g")
    slower = structs.replace(job, cluster=structs.replace(job.cluster, gpu=a100))
    measured, other = RolloutInput.of(job), RolloutInput.of(slower)
    ratio = workloads.H100.memory_bytes_per_s / a100.memory_bytes_per_s
    assert weight_curve(other).at(8) == pytest.approx(ratio * weight_curve(measured).at(8))
    assert cache_plane(other).at(700, 40) == pytest.approx(ratio * cache_plane(measured).at(700, 40))


def test_a_card_with_tables_of_reading_takes_its_own() -> None:
    job = workloads.grpo_7b()
    faster = structs.replace(job, cluster=structs.replace(job.cluster, gpu=workloads.H200))
    h100, h200 = RolloutInput.of(job), RolloutInput.of(faster)
    ratio = workloads.H100.memory_bytes_per_s / workloads.H200.memory_bytes_per_s
    for own, other in (
        (weight_curve(h200).at(8), weight_curve(h100).at(8)),
        (cache_plane(h200).at(700, 40), cache_plane(h100).at(700, 40)),
    ):
        assert own < other
        assert own != pytest.approx(ratio * other, rel=1e-3)


def test_the_first_core_takes_longer_for_each_sequence() -> None:
    job = workloads.grpo_7b().with_rollout(overlaps_scheduling=False)
    first = job.with_rollout(first_core=True)
    more = step_seconds(first, 100) - step_seconds(job, 100)
    assert more == pytest.approx(100 * (assume.FIRST_CORE_SEQUENCE_S - assume.ENGINE_SEQUENCE_S))


def test_vllm_computes_adapters_beside_every_product_and_other_engines_are_not_known() -> None:
    bare = workloads.grpo_7b().with_rollout(overlaps_scheduling=False)
    lora = Lora(rank=32, parameters=80_000_000)
    served = bare.with_actor_engine(lora=lora)
    merged = bare.with_actor_engine(lora=structs.replace(lora, merged_for_rollout=True))
    without, parts = (decode_step_parts(RolloutInput.of(job), 64) for job in (bare, served))
    products = 28 * 4  # joint queries, keys and values, their output, joint gate and up, down
    assert parts["adapters"] == pytest.approx(products * 17e-6)
    assert parts["gaps"] - without["gaps"] == pytest.approx(products * 3 * 1.5e-6)
    assert sum(parts.values()) - sum(without.values()) == pytest.approx(products * (17e-6 + 4.5e-6))
    assert decode_step_parts(RolloutInput.of(merged), 64) == without
    elsewhere = served.with_rollout(engine=RolloutEngine.SGLANG)
    assert "adapters" not in decode_step_parts(RolloutInput.of(elsewhere), 64)


def test_experts_have_a_router_more_with_adapters() -> None:
    job = workloads.grpo_moe_30b().with_actor_engine(lora=Lora(rank=8, parameters=1))
    parts = decode_step_parts(RolloutInput.of(job), 8)
    assert parts["adapters"] == pytest.approx(48 * (4 + 1) * 17e-6)


def test_the_host_launches_the_kernels_of_adapters_where_no_graph_does() -> None:
    bare = workloads.grpo_7b()
    served = bare.with_actor_engine(lora=Lora(rank=32, parameters=80_000_000))
    kernels = [step_prices(RolloutInput.of(job)).kernels for job in (bare, served)]
    assert kernels[1] - kernels[0] == 28 * 4 * 3


def test_a_rollout_names_the_seconds_of_its_adapters() -> None:
    job = workloads.grpo_7b().with_rollout(overlaps_scheduling=False)
    served = job.with_actor_engine(lora=Lora(rank=32, parameters=80_000_000))
    without, parts = (
        rollout_seconds(RolloutInput.of(one), concurrent_sequences=4096).parts for one in (job, served)
    )
    assert parts["gaps"] > without["gaps"] > 0
    more = sum(parts.values()) - sum(without.values())
    assert more == pytest.approx(parts["adapters"] + parts["gaps"] - without["gaps"], rel=0.02)


def test_ranks_on_several_nodes_add_up_through_nccl() -> None:
    """By hand: up a tree of two nodes and down again, 6.8 + 2 (7 x 0.6 + 5.0) us beside the bytes."""
    job = workloads.grpo_7b(nodes=2)
    inside, across = (RolloutInput.of(job.with_rollout(tensor_parallel=ranks, gpus=16)) for ranks in (8, 16))
    reductions = 2 * job.model.layers
    assert reduction_seconds(inside, 0) == pytest.approx(reductions * assume.ENGINE_ALL_REDUCE_S)
    assert reduction_seconds(across, 0) == pytest.approx(reductions * 25.2e-6)
