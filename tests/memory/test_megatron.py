"""What one rank of a Megatron grid holds, against closed forms."""

from dataclasses import replace

import pytest

from tests import workloads
from tuner.dtypes import DType
from tuner.memory import model_states
from tuner.memory.logits import megatron_head_bytes
from tuner.memory.megatron import local_parameters
from tuner.workload import Backend, Engine, HeadKind, OutputHead, Parallelism


def engine(**sizes: int) -> Engine:
    base = workloads.grpo_32b_megatron().actor.engine
    assert base.backend is Backend.MEGATRON
    parallel = Parallelism(**{"gpus": 8, **sizes})
    return replace(base, parallel=parallel, optimizer_offload_fraction=0.0, optimizer_dtype=DType.FLOAT32)


def test_one_rank_alone_holds_the_whole_model() -> None:
    model = workloads.grpo_32b_megatron().model
    whole = local_parameters(model, engine(gpus=1))
    assert whole.expert == 0
    assert whole.total == model.parameters - model.norm_parameters  # the final norm is not counted


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_tensor_parallelism_divides(tensor: int) -> None:
    model = workloads.grpo_32b_megatron().model
    whole = local_parameters(model, engine(gpus=1)).total
    part = local_parameters(model, engine(tensor=tensor)).total
    assert whole <= part * tensor < whole + tensor


def test_experts_are_divided_by_their_own_group() -> None:
    model = workloads.grpo_moe_30b().model
    one, four = (local_parameters(model, engine(expert=size)) for size in (1, 4))
    assert one.expert == model.layers * model.expert_parameters
    assert four.expert == one.expert // 4
    assert four.dense == one.dense


def test_data_parallelism_divides_the_optimizer_and_not_the_gradients() -> None:
    model = workloads.grpo_32b_megatron().model
    two, eight = (engine(gpus=gpus, tensor=2) for gpus in (2, 8))
    local = local_parameters(model, two).total
    assert model_states.parameter_bytes(model, two) == model_states.parameter_bytes(model, eight) == 2 * local
    assert model_states.gradient_bytes(model, two) == model_states.gradient_bytes(model, eight) == 4 * local
    assert model_states.optimizer_bytes(model, two) == 12 * local
    assert model_states.optimizer_bytes(model, eight) == 12 * -(-local // 4)
    whole = replace(eight, distributed_optimizer=False)
    assert model_states.optimizer_bytes(model, whole) == 12 * local


def test_a_share_of_the_optimizer_on_the_host_leaves_the_card() -> None:
    model = workloads.grpo_32b_megatron().model
    card = model_states.optimizer_bytes(model, engine())
    half = model_states.optimizer_bytes(model, replace(engine(), optimizer_offload_fraction=0.5))
    assert half == -(-card // 2)


def test_the_head_upcasts_and_entropy_keeps_two_copies_more() -> None:
    head = OutputHead(kind=HeadKind.LOGITS)
    sizes = {"tokens": 1000, "vocab": 152064, "tensor_parallel": 4}
    logits = 1000 * 152064 // 4
    assert megatron_head_bytes(head, **sizes, entropy=False) == 6 * logits
    assert megatron_head_bytes(head, **sizes, entropy=True) == 14 * logits
    chunked = replace(head, chunk_tokens=500)
    assert megatron_head_bytes(chunked, **sizes, entropy=True) == 12 * logits
