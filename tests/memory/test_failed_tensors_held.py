"""The sizes of tensors that a rollout engine or FSDP holds, as a failed allocation is compared with them."""

from collections.abc import Iterable

from msgspec.structs import replace

from tests.workloads import QWEN3_30B_A3B, QWEN25_7B, fsdp_engine, grpo_7b, megatron_engine
from tuner.dtypes import DType
from tuner.memory.failed_allocation.engine_tensors import engine_tensors
from tuner.memory.failed_allocation.state_tensors import sync_tensors, unit_tensors
from tuner.memory.failed_allocation.tensor import Tensor
from tuner.memory.rollout.capacity import rollout_memory
from tuner.model_shape import LatentAttention
from tuner.workload import RolloutEngine, Workload

VOCAB = 152_064


def sizes(made: Iterable[Tensor]) -> dict[str, int]:
    """Bytes by name, with the fullest micro-batch."""
    return {tensor.name: tensor.full_bytes for tensor in made}


# -- the rollout engine ------------------------------------------------------------------------


def of_engine(workload: Workload) -> dict[str, int]:
    return sizes(engine_tensors(workload))


def test_tensors_of_the_rollout_engine() -> None:
    """Four ranks, each with one of four key heads, 152,065 / 4 and 2 x 18,945 / 4 = 9,472.5 rows."""
    model = replace(QWEN25_7B, vocab=152_065, intermediate=18_945)
    workload = replace(grpo_7b(), model=model).with_rollout(tensor_parallel=4)
    cached = rollout_memory(workload).kv_tokens
    assert cached > 0
    assert of_engine(workload) == {
        "kv_cache_layer": cached * 2 * 128 * 2,
        "engine_embedding": 38_017 * 3_584 * 2,
        "engine_gate_up": 9_473 * 3_584 * 2,
        "engine_step": 8_192 * 2 * 4_737 * 2,
    }


def test_sglang_has_keys_and_values_apart_and_data_parallel_engines_have_caches_of_their_own() -> None:
    workload = grpo_7b().with_rollout(engine=RolloutEngine.SGLANG)
    (made,) = (one for one in engine_tensors(workload) if one.name == "kv_cache_layer")
    assert made.unit_bytes == 2 * 128 * 2  # two of four heads
    assert made.kinds == ("keys or values of one layer",)
    (joint,) = (one for one in engine_tensors(grpo_7b()) if one.name == "kv_cache_layer")
    assert joint.unit_bytes == 2 * 2 * 128 * 2
    assert joint.kinds == ("keys and values of one layer",)
    twice = grpo_7b().with_rollout(data_parallel=2)
    (half,) = (one for one in engine_tensors(twice) if one.name == "kv_cache_layer")
    assert half.tokens == rollout_memory(twice).kv_tokens // 2


def test_a_latent_cache_is_one_tensor_in_every_engine() -> None:
    """512 compressed values and 64 rotated ones of a token, in two bytes each."""
    latent = LatentAttention(
        q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
    )
    workload = replace(grpo_7b(), model=replace(QWEN25_7B, latent=latent))
    for engine in (RolloutEngine.VLLM, RolloutEngine.SGLANG):
        made = next(iter(engine_tensors(workload.with_rollout(engine=engine))))
        assert (made.name, made.unit_bytes) == ("kv_cache_layer", 1_152)
        assert made.kinds == ("keys and values of one layer",)


def test_a_job_without_an_engine_has_none_of_its_tensors() -> None:
    assert of_engine(replace(grpo_7b(), rollout=None)) == {}


def test_an_engine_without_room_has_a_cache_of_nothing() -> None:
    full = grpo_7b().with_rollout(memory_fraction=0.01)
    assert of_engine(full)["kv_cache_layer"] == 0


def test_the_sampler_has_the_logits_of_no_more_sequences_than_a_step_has_tokens() -> None:
    two_gib = 2 * 2**30
    assert sizes(sync_tensors(grpo_7b())) == {"sync_bucket": two_gib, "sampler_logits": 1_024 * VOCAB * 4}
    narrow = grpo_7b().with_rollout(max_batched_tokens=100, max_model_tokens=100)
    assert sizes(sync_tensors(narrow))["sampler_logits"] == 100 * VOCAB * 4
    workload = grpo_7b()
    direct = replace(workload, sync=replace(workload.weight_sync, bucket_bytes=0))
    assert set(sizes(sync_tensors(direct))) == {"sampler_logits"}


# -- states ------------------------------------------------------------------------------------


def test_units_of_fsdp2_on_three_ranks() -> None:
    """A layer of 233,057,792 parameters and an embedding of 152,064 x 3,584 = 544,997,376 on three ranks."""
    engine = fsdp_engine(gpus=3)
    layer, matrix = 233_057_792, 544_997_376
    made = sizes(unit_tensors(QWEN25_7B, engine, "actor"))
    assert made["actor_layer_gathered"] == 2 * layer
    assert made["actor_layer_reduced"] == 4 * layer
    assert made["actor_layer_shard_4"] == 4 * 77_685_931  # 233,057,792 / 3 = 77,685,930.7
    assert made["actor_first_unit_gathered"] == 2 * matrix
    assert (made["actor_embedding_2"], made["actor_embedding_4"]) == (2 * matrix, 4 * matrix)
    streamed = sizes(unit_tensors(QWEN25_7B, replace(engine, streamed_offload=True), "actor"))
    assert {name for name in made if name not in streamed} == {
        "actor_layer_shard_4",
        "actor_head_unit_shard_4",
        "actor_first_unit_shard_4",
    }
    in_bfloat16 = sizes(unit_tensors(QWEN25_7B, replace(engine, reduce_dtype=DType.BFLOAT16), "actor"))
    assert not any(name.endswith("reduced") for name in in_bfloat16)


def test_megatron_has_flat_buffers_of_dense_parameters_and_of_experts() -> None:
    """Each rank of two by two of Qwen2.5-7B has 1,903,956,992 parameters, see the grid's own test."""
    engine = megatron_engine(gpus=4, tensor=2, pipeline=2)
    assert sizes(unit_tensors(QWEN25_7B, engine, "actor")) == {
        "actor_dense_weights": 2 * 1_903_956_992,
        "actor_dense_gradients": 4 * 1_903_956_992,
    }
    # 128 experts of 3 x 2,048 x 768 parameters in each of 48 layers, which eight ranks share.
    sparse = sizes(unit_tensors(QWEN3_30B_A3B, megatron_engine(gpus=8, tensor=1, expert=8), "actor"))
    assert sparse["actor_expert_weights"] == 2 * 48 * 16 * 4_718_592
    assert sparse["actor_expert_gradients"] == 4 * 48 * 16 * 4_718_592
