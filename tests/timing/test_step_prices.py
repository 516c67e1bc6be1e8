"""One step of a rollout engine priced with round numbers, each second worked out by hand."""

from math import inf
from typing import Any

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.hardware import MeasuredGpu
from tuner.timing import assumptions, step_time
from tuner.timing.assumptions import (
    ATTENTION_SHARE,
    ENGINE_ALL_REDUCE_S,
    LARGE_PRODUCT_SHARE,
    LINK_SHARE,
    MEMORY_SHARE,
)
from tuner.timing.decode import RolloutInput, TokenCurve
from tuner.timing.generation import step
from tuner.timing.generation.step import CAUSES, StepPrices, decode_step_parts
from tuner.timing.layer import average_layer
from tuner.timing.measured_reads import Plane
from tuner.workload import Phase, RolloutEngine, Workload

LAYER = average_layer(workloads.QWEN25_7B)
# Reading the weights takes 3 ms, products 0.1 ms a token. The cache takes 10 ms for 100 sequences of 1,000
# tokens. Pauses of CUDA graphs are 1.5 us each.
PRICES = StepPrices(
    experts=None,
    layer=LAYER,
    largest_graph=100,
    overlaps=False,
    weights=TokenCurve((1.0, 1000.0), (0.003, 0.003)),
    products=TokenCurve((1.0, 1000.0), (0.0001, 0.1)),
    cache=Plane(rows=(0.0, 1000.0), columns=(0.0, 100.0), seconds=((0.0, 0.0), (0.0, 0.01))),
    prompt_key=2e-6,
    earlier_key=3e-9,
    sampled=4e-6,
    gathered=5e-6,
    reduction=6e-4,
    reduced=7e-6,
    kernels=280,
    waiting_kernels=100,
    launched=1e-5,
    step=8e-4,
    sequence=9e-6,
)
NAMES = (*CAUSES, "gpu", "launched", "host")
GAPS = 100 * 1.5e-6
# 20 sequences that see 500 tokens each: 3 ms of weights, which is more than 20 x 0.1 ms of products;
# 10 ms x 0.5 x 0.2 of the cache; 20 tokens are sampled.
DECODE = 0.003 + 0.001 + 20 * 4e-6
REDUCTIONS = 6e-4 + 20 * 7e-6 + 20 * 5e-6
GPU = DECODE + REDUCTIONS + GAPS
HOST = 8e-4 + 20 * 9e-6


def priced(prices: StepPrices = PRICES, **arguments: float) -> dict[str, float]:
    given = {"decoding": 20, "context": 500, "sampled": 20, "prompt_tokens": 0, **arguments}
    return dict(zip(NAMES, prices.priced(**given), strict=True))


def near(**seconds: float) -> Any:
    return pytest.approx(seconds, abs=1e-12)


def test_a_step_that_decodes_alone() -> None:
    assert priced() == near(
        decode=DECODE,
        prefill=0,
        communication=REDUCTIONS,
        gaps=GAPS,
        launch=0,
        engine=HOST,
        gpu=GPU,
        launched=0,
        host=HOST,
    )


def test_parts_are_the_seconds_by_cause() -> None:
    parts = PRICES.parts(20, 500, 20, 180, 400)
    assert parts == PRICES.priced(20, 500, 20, 180, 400)[:6]


def test_products_decide_where_they_take_longer_than_the_weights() -> None:
    # 50 x 0.1 ms; the cache of 50 sequences 10 ms x 0.5 x 0.5.
    assert priced(decoding=50, sampled=50)["decode"] == pytest.approx(0.005 + 0.0025 + 50 * 4e-6)


def test_a_prompt_in_the_same_step() -> None:
    """180 tokens of a prompt, of which 400 have been computed before; two prompts end."""
    decode = 0.003 + 0.001 + 22 * 4e-6
    # All 200 tokens are multiplied at once, 20 ms; each token of the prompt sees its own, and 400 before.
    prefill = 0.020 + 0.001 + 22 * 4e-6 + 180 * 2e-6 + 180 * 400 * 3e-9 - decode
    reductions = 6e-4 + 200 * 7e-6 + 22 * 5e-6
    gpu, launched, host = decode + prefill + reductions + GAPS, 280 * 1e-5, 8e-4 + 22 * 9e-6
    assert priced(sampled=22, prompt_tokens=180, earlier=400) == near(
        decode=decode,
        prefill=prefill,
        communication=reductions,
        gaps=GAPS,
        launch=0,
        engine=host,
        gpu=gpu,
        launched=launched,
        host=host,
    )


def test_a_window_bounds_what_decoding_and_prompts_see() -> None:
    windowed = replace(PRICES, layer=replace(LAYER, window=300, windowed_share=1.0))
    assert priced(windowed)["decode"] == pytest.approx(0.003 + 0.0006 + 20 * 4e-6)
    plain, earlier = (priced(windowed, prompt_tokens=10, earlier=tokens)["prefill"] for tokens in (0, 400))
    assert earlier - plain == pytest.approx(10 * 300 * 3e-9)


def test_a_step_without_sequences_that_decode_reads_no_cache() -> None:
    found = priced(decoding=0, sampled=1, prompt_tokens=100)
    decode = 0.003 + 4e-6
    assert found["decode"] == pytest.approx(decode)
    assert found["prefill"] == pytest.approx(0.010 + 4e-6 + 100 * 2e-6 - decode)
    assert found["communication"] == pytest.approx(6e-4 + 100 * 7e-6 + 5e-6)
    assert found["launched"] == 0  # the largest graph has 100 tokens
    started = Plane(rows=(0.0, 1000.0), columns=(0.0, 100.0), seconds=((0.001, 0.001), (0.001, 0.01)))
    begun = priced(replace(PRICES, cache=started), decoding=0, sampled=1, prompt_tokens=100)
    assert begun == pytest.approx(found)  # what attention takes to begin is not there either


def test_the_weights_are_read_once_for_a_few_tokens_of_a_prompt() -> None:
    # 25 tokens are multiplied in 2.5 ms, less than the 3 ms of the weights.
    assert priced(prompt_tokens=5)["prefill"] == pytest.approx(5 * 2e-6)


def test_the_gpu_waits_for_kernels_that_no_graph_replays() -> None:
    slow = replace(PRICES, largest_graph=19, launched=1e-4)
    found = priced(slow)
    assert found["launched"] == pytest.approx(0.028)
    assert found["launch"] == pytest.approx(0.028 - GPU)
    assert found["engine"] == pytest.approx(HOST)
    # Launching takes all of the GPU's time: nothing of the rest is hidden behind it.
    assert priced(replace(slow, overlaps=True))["engine"] == pytest.approx(HOST)


def test_what_the_host_does_beside_the_gpu_is_hidden_as_far_as_the_gpu_works() -> None:
    beside = replace(PRICES, overlaps=True)
    assert priced(beside)["engine"] == 0
    busy = replace(beside, step=0.01)
    assert priced(busy)["engine"] == pytest.approx(0.01 + 20 * 9e-6 - GPU)
    # 2.8 ms of launching are the host's as well.
    launching = replace(busy, largest_graph=0)
    assert priced(launching)["engine"] == pytest.approx(0.01 + 20 * 9e-6 - (GPU - 0.0028))


def test_two_processes_of_a_host_share_what_prepares_a_step_and_wait_for_the_last_but_one() -> None:
    apart = replace(PRICES, overlaps=True, apart=True)
    assert priced(apart)["engine"] == 0  # 0.98 ms, beside what the GPU takes
    busy = replace(apart, step=0.01)
    assert priced(busy)["engine"] == pytest.approx((0.01 + 20 * 9e-6 + GPU) / 2 - GPU)
    # 2.8 ms of launching are the worker's, with half of the rest.
    launching = replace(busy, largest_graph=0)
    assert priced(launching)["engine"] == pytest.approx((0.0028 + 0.01 + 20 * 9e-6 + GPU) / 2 - GPU)
    slow = replace(launching, launched=1e-4)
    assert priced(slow)["engine"] == pytest.approx((0.01 + 20 * 9e-6) / 2)


def test_a_step_of_experts_reads_those_that_its_tokens_go_to() -> None:
    """The weights that one of four GPUs reads, with a bandwidth of 3.35 TB/s of which 0.78 is reached."""
    inputs = RolloutInput.of(workloads.grpo_moe_30b())
    prices = step.step_prices(inputs)
    assert prices.weights is None
    model = inputs.model
    experts, chosen = 48 * 128 * 3 * 2048 * 768, 48 * 8 * 3 * 2048 * 768
    dense = model.active_parameters - chosen
    touched = 1 - (1 - 8 / 128) ** 4
    seconds = 2 * (dense / 4 + experts * touched / 4) / (3.35e12 * 0.78)
    assert prices.priced(4, 0, 0, 0)[0] - prices.cache.at(0, 4) == pytest.approx(seconds)


# -- the prices of a rollout ---------------------------------------------------------------------


def prices_of(workload: Any, **rollout: Any) -> StepPrices:
    return step.step_prices(RolloutInput.of(workload.with_rollout(**rollout)))


def test_kernels_of_a_layer_and_those_whose_pauses_are_in_no_rate() -> None:
    """12 kernels in each of 28 layers, five of which were measured with what they read; two reductions."""
    dense = workloads.grpo_7b()
    alone, pair = prices_of(dense, tensor_parallel=1), prices_of(dense, tensor_parallel=2)
    assert (alone.kernels, alone.waiting_kernels) == (28 * 12, 28 * 7)
    assert (pair.kernels, pair.waiting_kernels) == (28 * 14, 28 * 9)
    # 48 layers, one kernel was measured; norms of queries and keys 2 more, and routing to experts 4.
    sparse = prices_of(workloads.grpo_moe_30b(), tensor_parallel=4)
    assert (sparse.kernels, sparse.waiting_kernels) == (48 * 20, 48 * 19)


def test_an_eager_engine_launches_operators_of_torch_beside_its_kernels() -> None:
    """Three of each layer's routing; up to vLLM 0.8.5 sixteen more in place of two kernels that norm."""
    job, bare = workloads.grpo_moe_30b(), assumptions.BARE_LAUNCH_S

    def eager(version: str) -> StepPrices:
        return prices_of(job, tensor_parallel=1, cuda_graphs=False, engine_version=version)

    old, new = eager("0.8.5"), eager("0.9.0")
    assert (old.kernels, new.kernels) == (48 * 16, 48 * 18)
    assert (old.operators, new.operators) == pytest.approx((48 * 19 * bare, 48 * 3 * bare))
    assert new.launched == assumptions.ENGINE_LAUNCH_S
    compiled = prices_of(job, tensor_parallel=1, cuda_graphs=True, engine_version="0.8.5")
    assert (compiled.kernels, compiled.launched) == (48 * 18, assumptions.COMPILED_LAUNCH_S)
    first = prices_of(job, tensor_parallel=1, cuda_graphs=True, first_core=True)
    assert first.launched == assumptions.ENGINE_LAUNCH_S
    decoding = new.priced(decoding=8, context=500, sampled=8, prompt_tokens=0)
    launched = new.kernels * new.launched + new.operators
    assert decoding[NAMES.index("launched")] == pytest.approx(launched)
    assert launched > 20e-3  # so that the host decides


def test_attention_of_prompts_by_the_keys_that_their_tokens_see() -> None:
    """2 FLOP x 28 layers x 28 heads x 256 values for each key: 401,408 at a share of 989.4 TFLOP/s.

    A prompt of 1,024 tokens in the mean of 512 sees half of them; each of its tokens sees all before it.
    """
    prices = prices_of(workloads.grpo_7b(), tensor_parallel=1)
    key = prices.earlier_key
    assert prices.prompt_key == pytest.approx(256 * key, rel=1e-6)
    assert key == pytest.approx(401_408 / (989.4e12 * ATTENTION_SHARE), rel=1e-6)
    short = workloads.grpo_7b().with_batch(max_prompt_tokens=1)  # a token sees itself
    assert prices_of(short, tensor_parallel=1).prompt_key == pytest.approx(0.5 * key, rel=1e-6)
    halves = prices_of(workloads.grpo_7b(), tensor_parallel=2)
    assert halves.earlier_key == pytest.approx(key / 2, rel=1e-6)


def test_a_step_begins_its_reductions_and_takes_more_for_each_token() -> None:
    """Two in each of 28 layers, each of 2 x 3,584 x 2 B x 1/2 a token over the links of two GPUs."""
    pair = prices_of(workloads.grpo_7b(), tensor_parallel=2)
    assert pair.reduction == pytest.approx(56 * ENGINE_ALL_REDUCE_S)
    assert pair.reduced == pytest.approx(56 * 7_168 / (450e9 * LINK_SHARE))
    alone = prices_of(workloads.grpo_7b(), tensor_parallel=1)
    assert (alone.reduction, alone.reduced, alone.gathered) == (0, 0, 0)


def test_the_host_takes_longer_for_each_sequence_whose_log_probabilities_it_returns() -> None:
    """2.2 ms a step and 37 us a sequence; 50 us by the first core, and 2.6 us for log-probabilities.

    These are of an engine in the trainer's process, where 6 us for the front end come behind, which the first
    core has in its own.
    """
    job = workloads.grpo_7b().with_rollout(own_process=False)
    assert prices_of(job).step == 2.2e-3
    assert prices_of(job).sequence == pytest.approx(37e-6)
    assert prices_of(job, samples_log_probs=True).sequence == pytest.approx(45.6e-6)
    assert prices_of(job, first_core=True).sequence == pytest.approx(50e-6)
    assert prices_of(job, first_core=True, samples_log_probs=True).sequence == pytest.approx(52.6e-6)


def test_a_server_s_engine_sends_messages_and_its_front_end_gives_out_tokens() -> None:
    """0.45 ms of messages; 0.8 ms and 15 us a sequence of log-probabilities; 28 us of text, 50 us with."""
    job = workloads.grpo_7b().with_rollout(own_process=True, returns_log_probs=False)
    served, asked = prices_of(job), prices_of(job, returns_log_probs=True)
    assert served.apart and not prices_of(job, own_process=False).apart
    assert (
        not prices_of(job, overlaps_scheduling=False).apart and not prices_of(job, pipeline_parallel=2).apart
    )
    assert not prices_of(job, engine=RolloutEngine.SGLANG).apart
    assert [served.step, asked.step] == pytest.approx([2.65e-3, 3.45e-3])
    assert [served.sequence, asked.sequence] == pytest.approx([37e-6, 52e-6])
    assert [served.front, asked.front] == [28e-6, 50e-6]
    assert prices_of(job, own_process=False).front == 0


def test_log_probabilities_of_many_sequences_take_longer_for_each() -> None:
    """2.6 us for each of 64 sequences, and 16.5 us for each of 1,024."""
    job = workloads.grpo_7b()
    returned, without = (prices_of(job, samples_log_probs=samples) for samples in (True, False))
    for sequences, each in ((32, 2.6e-6), (64, 2.6e-6), (1024, 16.5e-6)):
        hosts = [
            prices.priced(decoding=sequences, context=500, sampled=sequences, prompt_tokens=0)[-1]
            for prices in (returned, without)
        ]
        assert hosts[0] - hosts[1] == pytest.approx(sequences * (each + 6e-6))


def test_replicas_of_several_engines_and_stages_divide_their_sequences() -> None:
    job = workloads.grpo_7b().with_rollout(tensor_parallel=1)
    alone = decode_step_parts(RolloutInput.of(job), 8)
    divided = decode_step_parts(RolloutInput.of(job.with_rollout(data_parallel=2, pipeline_parallel=2)), 32)
    assert divided == pytest.approx(alone)
    # In the middle of the mean response: 512 + 1,536 / 2 tokens.
    prices = step.step_prices(RolloutInput.of(job))
    assert alone == pytest.approx(dict(zip(CAUSES, prices.parts(8, 1_280, 8, 0), strict=True)))


def test_the_largest_graph_is_told_by_the_engine() -> None:
    job = workloads.grpo_7b()
    assert prices_of(job).largest_graph == 512  # the list of vLLM ends there
    assert prices_of(job, cuda_graphs=False).largest_graph == 0
    assert prices_of(job, engine=RolloutEngine.SGLANG).largest_graph == inf
    assert prices_of(job).experts is None
    assert prices_of(job).overlaps
    assert not prices_of(job, overlaps_scheduling=False).overlaps


def test_each_sequence_that_gets_a_token_has_its_logits_computed_sampled_and_gathered() -> None:
    """152,064 logits of 2 x 3,584 FLOP, moved with 24 B each; 28 of two ranks, which compute half of them.

    A rank gets the other half from its neighbour, in two bytes each.
    """
    peak, copy = 989.4e12 * LARGE_PRODUCT_SHARE, 3.35e12 * MEMORY_SHARE
    alone = prices_of(workloads.grpo_7b(), tensor_parallel=1)
    pair = prices_of(workloads.grpo_7b(), tensor_parallel=2)
    assert alone.sampled == pytest.approx(152_064 * (7_168 / peak + 24 / copy))
    assert pair.sampled == pytest.approx(152_064 * (3_584 / peak + 28 / copy))
    assert pair.gathered == pytest.approx(152_064 / (450e9 * LINK_SHARE))


def test_an_engine_that_was_measured_prepares_its_steps_at_its_own_rate() -> None:
    def prices(**factors: float) -> StepPrices:
        measured = MeasuredGpu(date="2026-01-01", versions=(), **factors)
        gpu = replace(workloads.H100, measured=measured)
        return prices_of(workloads.grpo_7b(gpu=gpu), own_process=False)

    both = prices(engine_factor=2.0, engine_sequence_factor=4.0)
    assert (both.step, both.sequence) == pytest.approx((1.1e-3, 9.25e-6))
    alike = prices(engine_factor=2.0)
    assert (alike.step, alike.sequence) == pytest.approx((1.1e-3, 18.5e-6))


def test_the_older_core_replays_no_step_with_a_sequence_beyond_8192_tokens() -> None:
    """By the longest of the step's sequences, whatever the others have; the core of today replays any."""
    job = workloads.grpo_7b()
    older, today = prices_of(job, first_core=True), prices_of(job)
    place = NAMES.index("launched")
    for context, longest, replayed in ((8_192, 0, True), (8_193, 0, False), (4_000, 8_193, False)):
        step_of = {"decoding": 8, "context": context, "sampled": 8, "prompt_tokens": 0, "longest": longest}
        assert (older.priced(**step_of)[place] == 0) is replayed
        assert today.priced(**step_of)[place] == 0
    assert prices_of(job, first_core=True, engine=RolloutEngine.SGLANG).longest_graph == inf


def test_graphs_bring_less_where_responses_outgrow_them() -> None:
    """The older core replays what comes before the longest sequence of a step has 8,192 tokens."""
    job = workloads.grpo_7b().with_batch(max_response_tokens=16_384)
    job = job.with_rollout(overlaps_scheduling=False, max_sequences=16)  # so few that the host decides

    def launching(workload: Workload) -> float:
        phases = step_time(workload, concurrent_sequences=64).phases
        return next(dict(phase.parts)["launch"] for phase in phases if phase.phase is Phase.ROLLOUT)

    older = job.with_rollout(first_core=True)
    without, with_graphs = (launching(older.with_rollout(cuda_graphs=on)) for on in (False, True))
    assert launching(job) == 0
    assert 0 < with_graphs < without
