import pytest
from msgspec.structs import replace

from tests.trainers.launches import LORA, MEGATRON, MODEL, workload_of
from tests.workloads import QWEN3_30B_A3B, QWEN25_0_5B, QWEN25_7B
from tuner.model_shape import LatentAttention, ModelShape
from tuner.models.adapters import adapter_parameters, megatron_adapter_parameters


@pytest.mark.parametrize(
    ("model", "rank", "expected"),
    [
        (QWEN25_7B, 64, 161_480_704),  # peft's own count
        (QWEN25_0_5B, 8, 4_399_104),
    ],
)
def test_all_linear_of_a_dense_model(model: ModelShape, rank: int, expected: int) -> None:
    assert adapter_parameters(model, rank=rank, target="all-linear", experts=True) == expected


def test_a_pattern_spells_out_whole_names() -> None:
    """The router, ``gate``, is no part of ``gate_proj``."""
    model = QWEN3_30B_A3B
    spelled, named = (
        adapter_parameters(model, rank=8, target=target, experts=True)
        for target in (".*(gate_proj|up_proj)$", ("gate_proj", "up_proj"))
    )
    assert spelled == named > 0


def test_named_modules() -> None:
    model, rank = QWEN25_7B, 16
    query = model.heads * model.head_dim
    key = model.kv_heads * model.head_dim
    expected = model.layers * rank * ((model.hidden + query) + (model.hidden + key))
    for target in (("q_proj", "v_proj"), ".*(q_proj|v_proj)$"):
        assert adapter_parameters(model, rank=rank, target=target, experts=True) == expected
    rest = ("k_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    excluded = adapter_parameters(model, rank=rank, target="all-linear", exclude=rest, experts=True)
    assert excluded == expected


def test_experts_are_linear_modules_only_in_transformers_4() -> None:
    with_experts = adapter_parameters(QWEN3_30B_A3B, rank=8, target="all-linear", experts=True)
    without = adapter_parameters(QWEN3_30B_A3B, rank=8, target="all-linear", experts=False)
    moe = QWEN3_30B_A3B.moe
    assert moe is not None
    per_layer = 3 * moe.experts * (QWEN3_30B_A3B.hidden + moe.expert_intermediate)
    router = QWEN3_30B_A3B.hidden + moe.experts
    assert with_experts - without == QWEN3_30B_A3B.layers * 8 * (per_layer + router)


def test_latent_attention() -> None:
    latent = LatentAttention(
        q_lora_rank=None, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
    )
    model = replace(QWEN25_0_5B, layers=1, latent=latent, heads=16, head_dim=192)
    targets = ("q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj")
    expected = (896 + 16 * 192) + (896 + 576) + (512 + 16 * 256) + (16 * 128 + 896)
    assert adapter_parameters(model, rank=1, target=targets, experts=True) == expected


def test_megatron_fuses_its_projections() -> None:
    model = QWEN25_7B
    query, keys = model.heads * model.head_dim, 2 * model.kv_heads * model.head_dim
    attention = (model.hidden + query + keys) + (query + model.hidden)
    mlp = (model.hidden + 2 * model.intermediate) + (model.intermediate + model.hidden)
    every = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")
    assert megatron_adapter_parameters(model, rank=4, target=every) == model.layers * 4 * (attention + mlp)
    assert megatron_adapter_parameters(model, rank=4, target=("linear_fc1",)) < model.layers * 4 * mlp


def test_which_key_holds_the_rank() -> None:
    fsdp = workload_of(LORA, "0.9.1").actor.engine.lora
    assert fsdp is not None
    assert fsdp.parameters == 161_480_704 // 2
    megatron = workload_of((*MEGATRON, f"{MODEL}.lora.rank=16"), "0.9.1")
    assert megatron.actor.engine.lora is not None
    assert megatron.actor.engine.lora.rank == 16
    assert megatron.reference is not None
    assert not megatron.reference.separate
    assert (
        workload_of((*LORA, f"{MODEL}.lora_rank=0", f"{MODEL}.lora.rank=16"), "0.9.1").actor.engine.lora
        is None
    )


def test_a_list_of_modules_from_the_configuration() -> None:
    lora = workload_of((*LORA, f"{MODEL}.target_modules=[q_proj]"), "0.9.1").actor.engine.lora
    assert lora is not None
    assert lora.parameters == 28 * 32 * (3584 + 3584)
