"""What a memory fraction leaves for the cache, engine by engine, and when an engine does not start."""

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import workloads
from tests.memory.formulas import evaluate
from tuner import memory
from tuner.dtypes import DType
from tuner.memory.ledger.terms import Item
from tuner.memory.process.overhead import (
    COMMUNICATOR_OVER_LINKS,
    CONTEXT,
    ENGINE_BUFFERS,
    ENGINE_KERNELS,
    NCCL_CODE,
    NCCL_KERNEL,
)
from tuner.memory.rollout.capacity import cache_share, least_shares, rollout_memory, start_problems
from tuner.memory.rollout.profile_run import engine_activations
from tuner.memory.rollout.terms import asleep_terms, awake_terms, waking_terms
from tuner.memory.rollout.weights import engine_weights
from tuner.units import GIB
from tuner.workload import FractionOf, Phase, RolloutEngine, Workload

CARD = workloads.grpo_7b().cluster.gpu.memory_bytes
WEIGHTS = 15_231_233_024  # Qwen2.5-7B: 7,615,616,512 parameters x 2
# of a replica of two GPUs: context, what NCCL loads, and the communicator
PROCESS = sum(part.typical for part in (CONTEXT, NCCL_CODE, NCCL_KERNEL, COMMUNICATOR_OVER_LINKS))


def job(**changes: object) -> Workload:
    """7B on eight H100, a replica of one GPU, half of the card."""
    return workloads.grpo_7b().with_rollout(**{"tensor_parallel": 1, "max_sequences": 256, **changes})


def trainer(workload: Workload) -> int:
    """Shards, context and communicators: what is there before the first step."""
    return cache_share(workload).trainer


def test_quantized_weights_leave_embedding_and_output_projection_in_16_bits() -> None:
    """7,615,616,512 parameters, of which 2 x 152,064 x 3,584 = 1,089,994,752 stay at two bytes."""
    weights = engine_weights(job(weight_dtype=DType.FLOAT8))
    assert weights.bytes == 7_615_616_512 + 1_089_994_752
    assert ceil(evaluate(weights.formula, weights.symbols)) == weights.bytes
    assert 2 * engine_weights(job(weight_dtype=DType.FLOAT8, tensor_parallel=2)).bytes == weights.bytes


def test_the_profile_run_is_the_larger_of_layers_and_sampler():
    """t = 8,192 tokens, H = 3,584, I = 18,944, V = 152,064; 256 sequences are sampled.

    Hidden states 8,192 x 3,584 x 2 B = 58,720,256; layers 2 x 8,192 x (3 x 18,944 + 3 x 3,584) =
    1,107,296,256; sampler 28 x 256 x 152,064 = 1,089,994,752, and 10 x 256 x 152,064 less than that.
    """
    assert engine_activations(job()).bytes == 58_720_256 + 1_107_296_256
    sorts = job(sampler_bytes=28, max_sequences=512)
    assert engine_activations(sorts).bytes == 58_720_256 + 28 * 512 * 152_064


@pytest.mark.parametrize("fraction", [0.5, 0.65])
def test_vllm_takes_a_share_of_the_card_and_its_process_on_top(fraction):
    workload = job(memory_fraction=fraction)
    found, requested = rollout_memory(workload), ceil(fraction * 100) * CARD // 100
    within = WEIGHTS + found.activation_bytes + ENGINE_KERNELS.typical
    assert abs(found.kv_bytes + within - requested) <= 1
    on_top = CONTEXT.typical - ENGINE_KERNELS.typical + ENGINE_BUFFERS.typical
    assert found.pool_bytes - found.graph_bytes - on_top == pytest.approx(requested, abs=1)


def test_vllm_0_24_takes_its_graphs_from_the_cache():
    without, counted = rollout_memory(job()), rollout_memory(job(counts_graphs=True))
    assert without.kv_bytes - counted.kv_bytes == without.graph_bytes > 0
    assert without.pool_bytes - counted.pool_bytes == without.graph_bytes


def test_vllm_0_8_counts_the_trainer():
    workload = job(fraction_of=FractionOf.TOTAL_OF_ALL)
    held = trainer(workload)
    assert held > 4 * 7_615_616_512 // 8  # fp32 shards of eight GPUs
    lost = rollout_memory(job()).kv_bytes - rollout_memory(workload).kv_bytes
    assert lost == held + CONTEXT.typical - ENGINE_KERNELS.typical
    shared = job(fraction_of=FractionOf.TOTAL_OF_ALL, own_process=False)
    assert rollout_memory(job()).kv_bytes - rollout_memory(shared).kv_bytes == held - ENGINE_KERNELS.typical
    offloaded = workload.with_actor_engine(param_offload=True)
    assert rollout_memory(offloaded).kv_bytes - rollout_memory(workload).kv_bytes == 4 * 7_615_616_512 // 8


def test_sglang_takes_a_share_of_what_is_free_for_weights_and_cache():
    workload = job(fraction_of=FractionOf.STATIC_POOL, engine=RolloutEngine.SGLANG, memory_fraction=0.8)
    found = rollout_memory(workload)
    free = CARD - trainer(workload) - CONTEXT.typical
    assert found.kv_bytes + WEIGHTS == -(-free * 8 // 10)
    extra = found.activation_bytes + found.graph_bytes + CONTEXT.typical
    assert found.pool_bytes == found.kv_bytes + WEIGHTS + extra


def test_tensorrt_takes_a_share_of_what_weights_and_activations_leave():
    workload = job(fraction_of=FractionOf.FREE_AFTER_WEIGHTS, engine=RolloutEngine.TENSORRT_LLM)
    found = rollout_memory(workload)
    left = CARD - trainer(workload) - CONTEXT.typical - WEIGHTS - found.activation_bytes
    assert found.kv_bytes == -(-left // 2)


@pytest.mark.parametrize("kind", list(FractionOf))
def test_the_formula_of_the_cache_is_the_cache(kind):
    share = cache_share(workloads.grpo_7b().with_rollout(fraction_of=kind, memory_fraction=0.77))
    term = share.cache_term
    assert term is not None
    assert ceil(evaluate(term.formula, term.symbols)) == term.bytes == share.cache > 0


@given(fraction=st.floats(0.3, 0.9), more=st.floats(0.001, 0.1), kind=st.sampled_from(list(FractionOf)))
def test_a_larger_fraction_never_leaves_a_smaller_cache(fraction, more, kind):
    small = job(memory_fraction=fraction, fraction_of=kind)
    large = job(memory_fraction=fraction + more, fraction_of=kind)
    assert rollout_memory(small).kv_bytes <= rollout_memory(large).kv_bytes


def test_running_sequences_beyond_the_cache_are_preempted():
    """A cache of 16.5 x 4,096 x 57,344 B, and 512 x 8 / 8 = 512 sequences for each replica."""
    workload = job(max_sequences=1024)
    one = 4096 * 57_344
    needed = WEIGHTS + engine_activations(workload).bytes + ENGINE_KERNELS.typical
    fraction = (needed + 16 * one + one // 2) / CARD
    found = rollout_memory(job(max_sequences=1024, memory_fraction=fraction))
    assert (found.concurrent_sequences, found.running_sequences) == (16, 512)
    assert found.preempted_sequences == 496
    assert found.kv_tokens == (16 * one + one // 2) // (16 * 57_344) * 16
    few = rollout_memory(job(max_sequences=8, memory_fraction=fraction))
    assert (few.concurrent_sequences, few.running_sequences, few.preempted_sequences) == (8, 8, 0)


def test_data_parallel_attention_multiplies_the_cache():
    one, two = rollout_memory(job()), rollout_memory(job(data_parallel=2))
    assert two.kv_tokens == 2 * one.kv_tokens
    assert two.kv_bytes == one.kv_bytes


def test_an_awake_engine_is_the_sum_of_its_terms():
    for make in workloads.ALL:
        workload = make()
        found, cache = rollout_memory(workload), cache_share(workload).cache_term
        assert sum(term.bytes for term in awake_terms(workload, cache)) == found.pool_bytes
        assert sum(term.bytes for term in asleep_terms(workload, cache)) == found.asleep_bytes


def test_asleep_graphs_and_process_stay():
    workload = workloads.grpo_7b()
    found = rollout_memory(workload)
    assert found.asleep_bytes == found.graph_bytes + PROCESS + ENGINE_BUFFERS.typical
    names = [term.name for term in asleep_terms(workload, cache_share(workload).cache_term)]
    assert names == ["engine_graphs", "engine_process", "engine_buffers"]
    inside = workload.with_rollout(own_process=False)
    assert rollout_memory(inside).asleep_bytes == found.graph_bytes + COMMUNICATOR_OVER_LINKS.typical
    served = workload.with_rollout(sleeps_with_weights=True)
    assert rollout_memory(served).asleep_bytes == found.asleep_bytes + found.weight_bytes
    never = workload.with_rollout(frees_memory=False)
    assert rollout_memory(never).asleep_bytes == found.pool_bytes


def test_what_wakes_before_new_weights():
    workload = workloads.grpo_7b()

    def names(**changes: object) -> list[str]:
        changed = workload.with_rollout(**changes)
        return [term.name for term in waking_terms(changed, cache_share(changed).cache_term)]

    assert names() == ["engine_weights"]
    assert names(staged_wake_up=False) == ["engine_weights", "kv_cache"]
    assert names(sleeps_with_weights=True) == names(frees_memory=False) == []


def test_the_first_wake_up_meets_the_optimizer_states():
    """The cache is sized without them: half of the card, then 8 B for each parameter of the shard."""
    workload = workloads.grpo_7b().with_actor_engine(param_offload=False, optimizer_offload=False)
    estimate = memory.estimate(workload)
    woken = estimate.phase(Phase.WAKE_UP)
    assert woken is not None
    assert woken.bytes_of(Item.OPTIMIZER) == 8 * 7_615_616_512 // 8
    assert woken.bytes_of(Item.KV_CACHE) == rollout_memory(workload).kv_bytes
    assert cache_share(workload).trainer < sum(
        term.bytes for term in woken.peak.terms if term.item not in (Item.ENGINE, Item.KV_CACHE)
    )


# -- start-up failures ---------------------------------------------------------------------


def _problem(workload: Workload) -> str:
    problems = start_problems(workload)
    assert memory.estimate(workload).problems == problems
    return problems[0] if problems else ""


def test_no_room_for_a_cache():
    assert "no KV cache" in _problem(job(memory_fraction=0.15))
    assert _problem(job(memory_fraction=0.5)) == ""


def test_a_cache_below_one_sequence():
    """4,096 tokens x 57,344 B = 224 MiB; weights and the profile run take 15.3 GiB of 79.6."""
    needed = WEIGHTS + engine_activations(job()).bytes + ENGINE_KERNELS.low
    assert "too small for one sequence of full length" in _problem(
        job(memory_fraction=(needed + 200 * 2**20) / CARD)
    )


def test_vllm_refuses_a_cache_below_one_sequence_of_the_length_it_is_built_for():
    """32,768 tokens are 1.75 GiB."""
    needed = WEIGHTS + engine_activations(job()).bytes + ENGINE_KERNELS.low
    fraction = (needed + GIB) / CARD
    built = {"memory_fraction": fraction, "max_model_tokens": None}
    assert "built for" in _problem(job(**built))
    assert _problem(job(memory_fraction=fraction, max_model_tokens=4096)) == ""
    sglang = job(engine=RolloutEngine.SGLANG, **built)
    assert "built for" not in _problem(sglang)


def test_vllm_asks_for_its_whole_share_at_the_start():
    """The shards of fp32 weights on two GPUs are 14.2 GiB: 0.85 of 79.6 GiB is not free."""
    workload = workloads.grpo_7b(gpus_per_node=2).with_rollout(tensor_parallel=1, memory_fraction=0.85)
    kept = workload.with_actor_engine(param_offload=False)
    assert "leaves free" in _problem(kept)
    assert _problem(workload.with_actor_engine(param_offload=True)) == ""
    assert _problem(kept.with_rollout(memory_fraction=0.78)) == ""
    assert _problem(kept.with_rollout(fraction_of=FractionOf.STATIC_POOL)) == ""
    assert _problem(kept.with_rollout(colocated=False)) == ""


@pytest.mark.parametrize(("share", "free"), [(0.5, True), (1.5, False)])
def test_what_vllm_loads_later_need_not_be_free_at_its_start(share, free):
    workload = job().with_actor_engine(param_offload=False)
    found = least_shares(workload)[0]
    asked = CARD - found.trainer - found.process + round(share * found.kernels)
    at_start = least_shares(workload.with_rollout(memory_fraction=asked / CARD))[0]
    assert at_start.starts_free is free


def test_a_start_is_not_refused_for_what_a_second_one_does_not_need():
    """The copy of the embedding, 152,064 x 3,584 x 2 B, is not there when the compiled model is cached."""
    smaller = {"max_batched_tokens": 1024, "max_model_tokens": 4096, "tunes_at_start": True}
    cached = engine_activations(job(**smaller | {"tunes_at_start": False})).bytes
    fraction = (WEIGHTS + cached + ENGINE_KERNELS.typical + GIB // 4) / CARD
    workload = job(memory_fraction=fraction, **smaller)
    assert rollout_memory(workload).kv_bytes < 0
    assert _problem(workload) == ""


def test_nothing_is_refused_for_a_context_that_may_be_smaller():
    """The typical context leaves no cache in 0.8's count, the smallest one does."""
    base = job(fraction_of=FractionOf.TOTAL_OF_ALL, own_process=True).with_actor_engine(param_offload=True)
    needed = WEIGHTS + engine_activations(base).bytes + 2 * CONTEXT.low + GIB // 2
    workload = base.with_rollout(memory_fraction=needed / CARD)
    assert rollout_memory(workload).kv_bytes < 0
    assert _problem(workload) == ""


def test_a_replaced_engine_has_no_process_of_its_own():
    workload = replace(workloads.grpo_7b()).with_rollout(
        engine=RolloutEngine.TRANSFORMERS, own_process=False, tensor_parallel=1
    )
    assert [
        t.name for t in asleep_terms(workload, cache_share(workload).cache_term) if t.item is Item.ENGINE
    ] == []
