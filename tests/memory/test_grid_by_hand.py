"""Parameters of a rank of a Megatron grid, worked out by hand for a small model.

Hidden states have 100 entries. Attention has 6,000 + 2,000 + 2,000 + 6,000 parameters, the MLP 3 x 5,000, two
norms 200: 31,200 of each of four layers. The embedding has 100,000, and so has the head.
"""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.memory.test_attention_by_hand import FULL, MODEL, PER_HEAD
from tests.workloads import megatron_engine
from tuner.memory.megatron import grid
from tuner.memory.megatron.mtp import module_states
from tuner.model_shape import LatentAttention, LinearAttention, MixtureOfExperts
from tuner.workload import Engine, Lora

MOE = MixtureOfExperts(experts=8, experts_per_token=2, expert_intermediate=30)
LATENT = LatentAttention(
    q_lora_rank=30, kv_lora_rank=20, qk_nope_head_dim=10, qk_rope_head_dim=5, v_head_dim=10
)
LINEAR = LinearAttention(
    key_heads=2, value_heads=4, key_head_dim=8, value_head_dim=16, conv_kernel=4, layers=(0, 1)
)
# A down-projection to 20 and five rotated entries with a norm of 20, and one of queries to 30 with its norm.
KEYS, QUERIES = 100 * 25 + 20, 100 * 30 + 30
DENSE = 31_000  # of a layer, without its norms
EXPERTS = 8 * 3 * 3000


def parallel(**sizes: Any) -> Engine:
    distributed = sizes.pop("distributed_optimizer", True)
    base = megatron_engine(gpus=16, tensor=2)
    return replace(base, parallel=replace(base.parallel, **sizes), distributed_optimizer=distributed)


@pytest.mark.parametrize(
    ("changes", "layer", "expected"),
    [
        ({}, 0, 200),
        ({"norm_bias": True}, 0, 400),
        ({"norms_per_layer": 4}, 0, 400),
        ({"output_bias": True}, 0, 300),
        ({"mlp_bias": True}, 0, 300),
        ({"qk_norm": PER_HEAD}, 0, 200 + 20),
        ({"qk_norm": FULL, "output_bias": True}, 0, 200 + 80 + 100),
        ({"latent": LATENT}, 0, 200 + KEYS + QUERIES),
        ({"latent": LATENT, "output_bias": True}, 0, 200 + KEYS + QUERIES + 100),
        ({"latent": LATENT, "qkv_bias": True}, 0, 200 + KEYS + QUERIES + 25 + 30),
        ({"latent": replace(LATENT, q_lora_rank=None)}, 0, 200 + KEYS),
        ({"latent": replace(LATENT, q_lora_rank=None), "qkv_bias": True}, 0, 200 + KEYS + 25),
        ({"linear": LINEAR}, 1, 200 + 16),
        ({"linear": LINEAR, "qk_norm": PER_HEAD}, 2, 200 + 20),
        ({"moe": MOE}, 0, 200 + 800),
        ({"moe": replace(MOE, router_bias=8)}, 0, 200 + 808),
        ({"moe": replace(MOE, shared_intermediate=40)}, 0, 200 + 800),
        ({"moe": replace(MOE, shared_gate=True)}, 0, 200 + 800),
        ({"moe": replace(MOE, shared_intermediate=40, shared_gate=True)}, 0, 200 + 900),
        ({"moe": replace(MOE, dense_layers=(0,)), "mlp_bias": True}, 0, 300),
    ],
)
def test_what_every_rank_of_tensor_parallelism_holds_whole(
    changes: dict[str, Any], layer: int, expected: int
) -> None:
    assert grid.replicated_layer_parameters(replace(MODEL, **changes), layer) == expected


TIED = {"tied_embeddings": True}


@pytest.mark.parametrize(
    ("model", "sizes", "stage", "tensor", "replicated", "expert"),
    [
        ({}, {}, 0, 4 * DENSE + 200_000, 800 + 100, 0),
        ({}, {"pipeline": 2}, 0, 2 * DENSE + 100_000, 400, 0),
        ({}, {"pipeline": 2}, 1, 2 * DENSE + 100_000, 400 + 100, 0),
        (TIED, {}, 0, 4 * DENSE + 100_000, 800 + 100, 0),
        (TIED, {"pipeline": 2}, 1, 2 * DENSE + 100_000, 400 + 100, 0),  # its own copy of the embedding
        ({"position_parameters": 64, "extra_parameters": 7}, {"pipeline": 4}, 0, DENSE + 100_000, 271, 0),
        ({"position_parameters": 64, "extra_parameters": 7}, {"pipeline": 4}, 1, DENSE, 200, 0),
        # Attention alone is divided: 16,000; the router is not, 800.
        ({"moe": MOE}, {"pipeline": 2}, 1, 2 * 16_000 + 100_000, 2 * 1000 + 100, 2 * EXPERTS),
        ({"moe": replace(MOE, dense_layers=(0,))}, {"pipeline": 2}, 0, 147_000, 1200, EXPERTS),
    ],
)
def test_what_a_stage_holds(
    model: dict[str, Any], sizes: dict[str, int], stage: int, tensor: int, replicated: int, expert: int
) -> None:
    part = grid.stage_parameters(replace(MODEL, **model), parallel(**sizes), stage)
    assert (part.tensor, part.replicated, part.expert) == (tensor, replicated, expert)


@pytest.mark.parametrize(
    ("sizes", "dense", "expert", "ranks", "share"),
    [
        # Two ranks halve 2 x 16,000 + 100,000, four have a quarter of 144,000 of experts. The last stage is
        # the fullest by its norm. Optimizer states are divided by 16 / 4 and 16 / 8.
        ({"pipeline": 2, "expert": 4}, 66_000 + 2100, 36_000, (4, 2), 17_025 + 18_000),
        ({"pipeline": 2, "expert": 4, "stage": 0}, 66_000 + 2000, 36_000, (4, 2), 17_000 + 18_000),
        # 144,000 / 6 and 16 / 12, which is one rank.
        ({"pipeline": 2, "expert": 2, "expert_tensor": 3}, 68_100, 24_000, (4, 1), 17_025 + 24_000),
        # 132,000 / 7 = 18,857.1 and 16 / 14; 144,000 / 5 and 16 / 10.
        ({"pipeline": 2, "tensor": 7, "expert": 5}, 18_858 + 2100, 28_800, (1, 1), 20_958 + 28_800),
        # 20,958 / 3 = 6,986, 28,800 / 4.
        ({"gpus": 42, "pipeline": 2, "tensor": 7, "expert": 5}, 20_958, 28_800, (3, 4), 6986 + 7200),
        ({"gpus": 70, "pipeline": 2, "tensor": 7, "expert": 5}, 20_958, 28_800, (5, 7), 4192 + 4115),
        ({"gpus": 1, "tensor": 2, "expert": 4, "pipeline": 2}, 68_100, 36_000, (1, 1), 104_100),
        ({"pipeline": 2, "expert": 4, "distributed_optimizer": False}, 68_100, 36_000, (1, 1), 104_100),
    ],
)
def test_what_a_rank_holds_of_parameters_and_of_the_optimizer(
    sizes: dict[str, Any], dense: int, expert: int, ranks: tuple[int, int], share: int
) -> None:
    model, engine = replace(MODEL, moe=MOE), parallel(**sizes)
    local = grid.local_parameters(model, engine)
    assert (local.dense, local.expert, local.total) == (dense, expert, dense + expert)
    assert grid.optimizer_ranks(engine) == ranks
    assert grid.optimizer_share(model, engine) == share


@pytest.mark.parametrize(
    ("model", "sizes", "dense", "expert"),
    [
        # A layer and a projection of two hidden states, halved; three norms and what is whole in a layer.
        ({}, {}, (31_200 + 20_000) // 2 + 300 + 200, 0),
        ({}, {"pipeline": 2}, (31_200 + 20_000 + 100_000) // 2 + 300 + 200, 0),
        ({"moe": MOE}, {"expert": 4}, (16_000 + 800 + 200 + 20_000) // 2 + 300 + 1000, 18_000),
        ({"moe": MOE}, {"expert": 4, "expert_tensor": 2}, 18_500 + 300 + 1000, 9000),
        ({"moe": MOE}, {"tensor": 3, "expert": 7}, 12_334 + 300 + 1000, 10_286),  # 37,000 / 3; 72,000 / 7
        ({"moe": replace(MOE, dense_layers=(3,))}, {}, 25_600 + 300 + 200, 0),  # as the last layer
    ],
)
def test_what_a_rank_holds_of_a_module_that_predicts_a_further_token(
    model: dict[str, Any], sizes: dict[str, int], dense: int, expert: int
) -> None:
    engine = replace(parallel(**sizes), mtp_module=True)
    (term,) = module_states(replace(MODEL, **model), engine, "actor")
    numbers = dict(term.symbols)
    assert (numbers["N_d"], numbers["N_e"]) == (dense, expert)
    assert (numbers["b_c"], numbers["b_r"], numbers["b_s"]) == (2, 4, 4 + 8)


@pytest.mark.parametrize(
    ("role", "changes"), [("reference", {}), ("actor", {"lora": Lora(rank=3, parameters=1)})]
)
def test_a_module_that_is_not_trained_is_its_weights(role: str, changes: dict[str, Any]) -> None:
    (term,) = module_states(MODEL, replace(parallel(), mtp_module=True, **changes), role)
    numbers = dict(term.symbols)
    assert (numbers["b_r"], numbers["b_s"]) == (0, 0)
    assert (term.low, term.bytes, term.high) == (0, 0, 2 * 26_100)
