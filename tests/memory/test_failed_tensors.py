"""The sizes of single tensors that a failed allocation is compared with, worked out by hand."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from tests.workloads import QWEN3_30B_A3B, QWEN25_7B, fsdp_engine, grpo_7b, megatron_engine, static
from tuner.memory.failed_allocation.pass_tensors import (
    activation_tensors,
    attention_of_unknown_engine,
    attention_score_tensors,
)
from tuner.memory.failed_allocation.tensor import Tensor
from tuner.memory.ledger.terms import Item
from tuner.workload import Parallelism

ENGINE = fsdp_engine(gpus=8)


def sizes(made: Iterable[Tensor]) -> dict[str, int]:
    """Bytes by name, with the fullest micro-batch."""
    return {tensor.name: tensor.full_bytes for tensor in made}


# -- one tensor --------------------------------------------------------------------------------


def tensor(**changes: object) -> Tensor:
    """77 numbers of three bytes."""
    given = {"kinds": ("one",), "factors": ((7, "rows"), (11, "columns")), "dtype_bytes": 3}
    return Tensor(**{"name": "x", "made_by": "y", "item": Item.LOGITS, **given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "unit", "full"),
    [
        ({}, 231, 231),
        ({"ranks": 4}, 60, 60),  # 77 / 4 = 19.25: 20 numbers of three bytes
        ({"tokens": 5}, 231, 1155),
        ({"tokens": 5, "quadratic": True}, 231, 5775),
        ({"tokens": 0}, 231, 0),
    ],
)
def test_a_tensor_is_its_factors_its_dtype_and_its_tokens(
    changes: dict[str, object], unit: int, full: int
) -> None:
    made = tensor(**changes)
    assert (made.unit_bytes, made.full_bytes) == (unit, full)


def test_what_a_tensor_can_be_is_a_list_in_words() -> None:
    assert tensor().what == "one"
    assert tensor(kinds=("one", "two")).what == "one or two"
    assert tensor(kinds=("one", "two", "three")).what == "one, two or three"


# -- layers ------------------------------------------------------------------------------------


def test_activations_of_a_dense_layer() -> None:
    """100 tokens of 3,584 entries, 28 heads of 128, an MLP of 18,944."""
    assert sizes(activation_tensors(QWEN25_7B, ENGINE, tokens=100)) == {
        "hidden_states": 100 * 3_584 * 2,
        "hidden_float32": 100 * 3_584 * 4,
        "queries": 100 * 28 * 128 * 2,
        "mlp": 100 * 18_944 * 2,
    }
    # Of tensor parallelism 18,945 / 4 = 4,736.25 entries.
    cut = activation_tensors(
        replace(QWEN25_7B, intermediate=18_945), megatron_engine(gpus=8, tensor=4), tokens=100
    )
    assert sizes(cut)["mlp"] == 100 * 4_737 * 2


def test_activations_of_a_sparse_layer() -> None:
    """Eight experts of 768 for each of 100 tokens of 2,048 entries; 32 heads of 128."""
    sparse = {
        "hidden_states": 100 * 2_048 * 2,
        "hidden_float32": 100 * 2_048 * 4,
        "queries": 100 * 32 * 128 * 2,
        "routed": 100 * 8 * 2_048 * 2,
        "routed_float32": 100 * 8 * 2_048 * 4,
        "expert": 100 * 8 * 768 * 2,
    }
    assert sizes(activation_tensors(QWEN3_30B_A3B, ENGINE, tokens=100)) == sparse
    assert QWEN3_30B_A3B.moe is not None
    first_dense = replace(QWEN3_30B_A3B, moe=replace(QWEN3_30B_A3B.moe, dense_layers=(0,)))
    assert sizes(activation_tensors(first_dense, ENGINE, tokens=100)) == {**sparse, "mlp": 100 * 6_144 * 2}


@pytest.mark.parametrize(
    ("engine", "dynamically", "sequences", "heads"),
    [
        ({}, False, 1, 28),
        ({"packed": False}, False, 6, 28),
        ({"packed": False}, True, 1, 28),
        (
            {"packed": False, "parallel": Parallelism(gpus=8, shard=8, ulysses=3)},
            False,
            6,
            10,
        ),  # 28 / 3 = 9.3
    ],
)
def test_attention_scores_are_of_each_sequence_of_a_padded_micro_batch(
    engine: dict[str, object], dynamically: bool, sequences: int, heads: int
) -> None:
    """Prompts and responses are 1,024 and 3,072 tokens long."""
    one_pass = static(6)
    one_pass = replace(one_pass, batching=replace(one_pass.batching, dynamic=dynamically))
    made = attention_score_tensors(QWEN25_7B, replace(ENGINE, **engine), one_pass, grpo_7b().batch)  # type: ignore[arg-type]
    scores = sequences * heads * 4_096 * 4_096
    assert sizes(made) == {"attention_scores": scores * 2, "attention_scores_float32": scores * 4}


def test_attention_scores_without_a_job_are_of_one_sequence_as_long_as_the_model_reads() -> None:
    scores = 28 * 32_768 * 32_768
    assert sizes(attention_of_unknown_engine(QWEN25_7B)) == {
        "attention_scores": scores * 2,
        "attention_scores_float32": scores * 4,
    }
