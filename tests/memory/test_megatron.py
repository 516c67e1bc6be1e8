"""What one rank of a Megatron grid holds, against closed forms and against Megatron-Core's own objects."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.dtypes import DType
from tuner.memory import residents
from tuner.memory.estimate import estimate
from tuner.memory.ledger.terms import Item
from tuner.memory.megatron.grid import local_parameters, optimizer_share, rank_parameters, stage_parameters
from tuner.memory.megatron.stages import stage_layers, stage_sizes
from tuner.model_shape import LatentAttention, MixtureOfExperts, ModelShape, QueryKeyNorm
from tuner.workload import Backend, Engine, Lora, Parallelism, Phase

DEEPSEEK_V3 = ModelShape(
    name="deepseek-v3",
    architecture="deepseek_v3",
    hidden=7168,
    layers=61,
    heads=128,
    kv_heads=128,
    head_dim=192,
    intermediate=18432,
    vocab=129280,
    tied_embeddings=False,
    max_positions=163840,
    moe=MixtureOfExperts(
        experts=256,
        experts_per_token=8,
        expert_intermediate=2048,
        shared_intermediate=2048,
        dense_layers=(0, 1, 2),
    ),
    latent=LatentAttention(
        q_lora_rank=1536, kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128
    ),
)

TINY = ModelShape(
    name="tiny",
    architecture="qwen2",
    hidden=64,
    layers=4,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate=96,
    vocab=256,
    tied_embeddings=False,
    max_positions=64,
    qkv_bias=True,
)
TINY_TIED = replace(TINY, qkv_bias=False, tied_embeddings=True, qk_norm=QueryKeyNorm.PER_HEAD)
TINY_SPARSE = replace(
    TINY_TIED,
    layers=2,
    tied_embeddings=False,
    moe=MixtureOfExperts(experts=4, experts_per_token=2, expert_intermediate=32),
)
TINY_UNEVEN = replace(TINY, layers=5, qkv_bias=False)


def engine(**sizes: int) -> Engine:
    base = workloads.grpo_32b_megatron().actor.engine
    assert base.backend is Backend.MEGATRON
    parallel = Parallelism(**{"gpus": 8, **sizes})
    return replace(base, parallel=parallel, optimizer_offload_fraction=0.0, optimizer_dtype=DType.FLOAT32)


# -- parameters ------------------------------------------------------------------------------

# Read off Megatron-Core 0.12.2 and 0.15.0 (alike), which built GPTModel, DistributedDataParallel and
# the distributed optimizer for these shapes in processes on a CPU (gloo, local layer specs): elements
# of model.parameters(), of those with allreduce=False, of the gradient buffers, and the bytes of main
# weights and moments together, each on the rank of the stage that has the most.
REAL = [
    # model, grid, stage, parameters, of experts, gradient buffers, optimizer bytes
    (TINY, {"gpus": 4, "tensor": 2, "pipeline": 2}, 0, 39_296, 0, 39_296, 471_552),
    (TINY, {"gpus": 4, "tensor": 2, "pipeline": 2}, 1, 39_360, 0, 39_424, 472_320),
    (TINY_TIED, {"gpus": 4, "pipeline": 2}, 0, 78_144, 0, 78_336, 468_864),
    (TINY_TIED, {"gpus": 4, "pipeline": 2}, 1, 78_208, 0, 78_464, 469_632),
    (TINY_SPARSE, {"gpus": 4, "tensor": 2, "expert": 2}, 0, 54_144, 24_576, 54_400, 325_248),
    (TINY_SPARSE, {"gpus": 4, "tensor": 2, "expert_tensor": 2}, 0, 54_144, 24_576, 54_400, 325_248),
    (TINY_UNEVEN, {"gpus": 2, "pipeline": 2, "first_stage_layers": 2}, 0, 78_080, 0, 78_080, 936_960),
    (TINY_UNEVEN, {"gpus": 2, "pipeline": 2, "first_stage_layers": 2}, 1, 108_992, 0, 109_056, 1_307_904),
]
PADDING = 256  # elements that alignment adds to such small buffers


@pytest.mark.parametrize(("model", "grid", "stage", "total", "expert", "buffers", "optimizer"), REAL)
def test_a_rank_holds_what_megatron_core_builds(
    model: ModelShape, grid: dict[str, int], stage: int, total: int, expert: int, buffers: int, optimizer: int
) -> None:
    seen = engine(**grid, stage=stage)
    local = local_parameters(model, seen)
    assert (local.total, local.expert) == (total, expert)
    assert residents.parameters(model, seen).bytes == 2 * total
    gradients = residents.gradients(model, seen).bytes
    assert 4 * (buffers - PADDING) <= gradients <= 4 * buffers
    states = residents.optimizer(model, seen).bytes
    assert optimizer - 12 * PADDING <= states <= optimizer


def test_one_rank_alone_holds_the_whole_model() -> None:
    model = workloads.grpo_32b_megatron().model
    assert local_parameters(model, engine(gpus=1)).total == model.parameters


@pytest.mark.parametrize(
    "model", [workloads.QWEN25_0_5B, workloads.QWEN25_7B, workloads.QWEN3_30B_A3B, DEEPSEEK_V3]
)
@pytest.mark.parametrize("pipeline", [1, 2, 4])
@pytest.mark.parametrize("tensor", [1, 2])
@pytest.mark.parametrize("expert", [1, 8])
def test_the_shards_add_up_to_the_whole(model: ModelShape, pipeline: int, tensor: int, expert: int) -> None:
    grid = engine(gpus=64, tensor=tensor, pipeline=pipeline, expert=expert)
    whole = 0
    for stage in range(pipeline):
        part, local = stage_parameters(model, grid, stage), rank_parameters(model, grid, stage)
        assert local.dense == part.tensor // tensor + part.replicated  # these divide without remainder
        assert local.expert == part.expert // expert
        whole += part.tensor + part.replicated + part.expert
    twice = model.embedding_parameters if model.tied_embeddings and pipeline > 1 else 0
    assert whole == model.parameters + twice


@pytest.mark.parametrize("virtual", [1, 2])
@pytest.mark.parametrize("layers", [28, 48, 61])
@pytest.mark.parametrize("pipeline", [1, 2, 4, 8])
def test_every_layer_is_on_one_stage(layers: int, pipeline: int, virtual: int) -> None:
    model = replace(workloads.QWEN25_7B, layers=layers)
    parallel = Parallelism(gpus=8, pipeline=pipeline, virtual_pipeline=virtual)
    found = [layer for stage in range(pipeline) for layer in stage_layers(model, parallel, stage)]
    assert sorted(found) == list(range(layers))


def test_end_stages_of_their_own_size() -> None:
    parallel = Parallelism(gpus=128, pipeline=16, first_stage_layers=3, last_stage_layers=2)
    assert stage_sizes(61, parallel) == (3, *(4,) * 14, 2)


def test_qwen25_7b_on_two_by_two() -> None:
    # One layer: 3584 x (3584 + 2 x 512) + 4608 of bias + 3584 x 3584 + 3 x 3584 x 18944 = 233,050,624,
    # halved 116,525,312, and two whole norms, 7,168. Embedding and head 152064 x 3584 / 2 = 272,498,688.
    model, grid = workloads.QWEN25_7B, engine(gpus=4, tensor=2, pipeline=2)
    layers = 14 * (116_525_312 + 7_168)
    assert rank_parameters(model, grid, 0).total == layers + 272_498_688 == 1_903_953_408
    assert rank_parameters(model, grid, 1).total == layers + 272_498_688 + 3_584 == 1_903_956_992
    assert local_parameters(model, grid).total == 1_903_956_992  # the fullest


def test_qwen3_30b_with_eight_expert_ranks() -> None:
    # Experts 128 x 3 x 2048 x 768 / 8 = 75,497,472 a layer; the rest of a layer 2048 x (4096 + 1024)
    # + 4096 x 2048 + 256 + 2048 x 128 + 4096 = 19,140,864; 2 x 151936 x 2048 + 2048 outside.
    local = local_parameters(workloads.QWEN3_30B_A3B, engine(expert=8))
    assert local.expert == 48 * 75_497_472 == 3_623_878_656
    assert local.dense == 48 * 19_140_864 + 622_331_904 == 1_541_093_376


def test_deepseek_v3_over_sixteen_stages() -> None:
    # Attention 187,107,328, two norms 14,336; dense MLP 3 x 7168 x 18432 = 396,361,728; router
    # 1,835,008 and shared expert 44,040,192; experts 256 x 44,040,192 / 32 = 352,321,536 a layer.
    # Embedding and head 129280 x 7168 = 926,679,040 each.
    grid = engine(gpus=512, pipeline=16, expert=32, first_stage_layers=3, last_stage_layers=2)
    first, middle, last = (rank_parameters(DEEPSEEK_V3, grid, stage) for stage in (0, 1, 15))
    assert (first.dense, first.expert) == (3 * 583_483_392 + 926_679_040, 0)
    assert (middle.dense, middle.expert) == (4 * 232_996_864, 4 * 352_321_536)
    assert (last.dense, last.expert) == (2 * 232_996_864 + 926_679_040 + 7_168, 2 * 352_321_536)


def test_tensor_parallelism_leaves_norms_and_routers_whole() -> None:
    # Qwen3-30B-A3B: router 2048 x 128, two norms and two norms of 128 in each layer, and the final norm.
    replicated = 48 * (262_144 + 4_096 + 256) + 2_048
    whole, half = (local_parameters(workloads.QWEN3_30B_A3B, engine(tensor=t)).dense for t in (1, 2))
    assert half == (whole - replicated) // 2 + replicated


# -- states ----------------------------------------------------------------------------------


def test_data_parallelism_divides_the_optimizer_and_not_the_gradients() -> None:
    model = workloads.grpo_32b_megatron().model
    two, eight = (engine(gpus=gpus, tensor=2) for gpus in (2, 8))
    local = local_parameters(model, two).total
    assert residents.parameters(model, two).bytes == residents.parameters(model, eight).bytes == 2 * local
    assert residents.gradients(model, two).bytes == residents.gradients(model, eight).bytes == 4 * local
    assert residents.optimizer(model, two).bytes == 12 * local
    assert residents.optimizer(model, eight).bytes == 12 * -(-local // 4)
    whole = replace(eight, distributed_optimizer=False)
    assert residents.optimizer(model, whole).bytes == 12 * local


def test_context_parallelism_divides_the_optimizer_too() -> None:
    model = workloads.QWEN25_7B
    plain, context = (optimizer_share(model, engine(gpus=8, context=c)) for c in (1, 4))
    assert plain == context == -(-model.parameters // 8)


def test_experts_are_shared_by_the_ranks_that_hold_the_same() -> None:
    model = workloads.QWEN3_30B_A3B
    local = local_parameters(model, engine(gpus=8, expert=4))
    assert optimizer_share(model, engine(gpus=8, expert=4)) == -(-local.dense // 8) + local.expert // 2


@pytest.mark.parametrize(
    ("changes", "per_parameter"),
    [
        ({}, 12),
        ({"optimizer_dtype": DType.BFLOAT16}, 8),
        ({"main_weight_bytes": 2}, 10),
        ({"optimizer_offload_fraction": 0.5}, 6),
        ({"optimizer_offload_fraction": 1.0}, 0),
        ({"optimizer_offload_fraction": 1.0, "main_weights_offloaded": False}, 4),
    ],
)
def test_optimizer_bytes_per_parameter(changes: dict[str, object], per_parameter: int) -> None:
    model = workloads.QWEN25_7B
    share = optimizer_share(model, engine())
    assert residents.optimizer(model, replace(engine(), **changes)).bytes == per_parameter * share


def test_gradients_in_the_compute_dtype_are_copied_for_the_step() -> None:
    model, whole = workloads.QWEN25_7B, engine()
    half = replace(whole, reduce_dtype=DType.BFLOAT16)
    assert residents.gradients(model, half).bytes * 2 == residents.gradients(model, whole).bytes
    assert residents.optimizer_step(model, whole).bytes == 0
    assert residents.optimizer_step(model, half).bytes == 4 * optimizer_share(model, half)
    assert residents.optimizer_step(model, replace(half, main_weight_bytes=2)).bytes == 0


def test_adapters_train_alone() -> None:
    model, grid = workloads.QWEN25_7B, engine(gpus=8, tensor=2)
    lora = replace(grid, lora=Lora(rank=32, parameters=80_000_000))
    assert residents.gradients(model, lora).bytes == 4 * 40_000_000
    assert residents.optimizer(model, lora).bytes == 12 * 10_000_000
    extra = residents.parameters(model, lora).bytes - residents.parameters(model, grid).bytes
    assert extra == 2 * 40_000_000


# -- when they are there ---------------------------------------------------------------------


def gradients_by_phase(*, param_offload: bool) -> dict[Phase, int]:
    job = workloads.grpo_32b_megatron().with_actor_engine(param_offload=param_offload)
    return {phase.phase: phase.bytes_of(Item.GRADIENTS) for phase in estimate(job).phases}


def test_the_gradient_buffer_never_leaves_the_card_by_itself() -> None:
    found = gradients_by_phase(param_offload=False)
    assert min(found.values()) == max(found.values()) > 0


def test_offloading_the_weights_frees_the_gradient_buffer() -> None:
    found = gradients_by_phase(param_offload=True)
    assert found[Phase.UPDATE_ACTOR] > 0
    assert {size for phase, size in found.items() if phase is not Phase.UPDATE_ACTOR} == {0}
