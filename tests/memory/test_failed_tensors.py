"""The sizes of single tensors that a failed allocation is compared with, worked out by hand."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from tests.workloads import QWEN3_30B_A3B, QWEN25_7B, dynamic, fsdp_engine, grpo_7b, megatron_engine, static
from tuner.dtypes import DType
from tuner.memory.failed_allocation.pass_tensors import (
    activation_tensors,
    attention_of_unknown_engine,
    attention_score_tensors,
    head_tensors,
)
from tuner.memory.failed_allocation.tensor import Tensor
from tuner.memory.ledger.terms import Item
from tuner.model_shape import ModelShape
from tuner.workload import Engine, HeadKind, OutputHead, Parallelism, Scaling

ENGINE = fsdp_engine(gpus=8)
VOCAB = 152_064
QWEN_151_936 = replace(QWEN25_7B, vocab=151_936)


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


# -- the output head ---------------------------------------------------------------------------


def of_head(
    head: OutputHead,
    *,
    model: ModelShape = QWEN25_7B,
    engine: Engine = ENGINE,
    tokens: int = 10_000,
    entropy: bool = False,
    training: bool = False,
) -> dict[str, int]:
    return sizes(head_tensors(model, engine, head, tokens=tokens, entropy=entropy, training=training))


def test_verls_fused_head_has_chunks_of_512_tokens() -> None:
    head = OutputHead(kind=HeadKind.FUSED_TORCH)
    assert of_head(head) == {"logits_chunk_4": 512 * VOCAB * 4}
    assert of_head(head, tokens=300) == {"logits_chunk_4": 300 * VOCAB * 4}


def test_ligers_head_has_as_many_chunks_as_the_vocabulary_is_wider_than_the_model() -> None:
    """152,064 / 3,584 = 42.4: 43 chunks, of which each has 10,000 / 43 = 232.6 tokens: 233."""
    assert of_head(OutputHead(kind=HeadKind.FUSED_LIGER)) == {"logits_chunk_2": 233 * VOCAB * 2}
    wide = OutputHead(kind=HeadKind.FUSED_LIGER, logits_dtype=DType.FLOAT32)
    assert of_head(wide) == {"logits_chunk_4": 233 * VOCAB * 4}


@pytest.mark.parametrize("kind", [HeadKind.FUSED_TRITON, HeadKind.FUSED_TUNER])
def test_a_head_of_slices_keeps_a_float32_number_of_each_while_it_goes_forward(kind: HeadKind) -> None:
    """152,064 / 1,024 = 148.5: 149 slices of 10,000 tokens."""
    assert of_head(OutputHead(kind=kind)) == {"fused_head_statistics": 149 * 4 * 10_000}


def test_the_triton_head_copies_the_slice_that_is_left() -> None:
    """152,064 = 16 x 9,504; of 151,936 the sixteenth slice has 9,376."""
    head = OutputHead(kind=HeadKind.FUSED_TRITON)
    made = [
        head_tensors(model, ENGINE, head, tokens=10_000, entropy=False, training=True)
        for model in (QWEN25_7B, QWEN_151_936)
    ]
    names = {one.name for some in made for one in some}
    assert names == {"fused_head_gradient"}
    whole, left = 9504 * 2 * 10_000, 9376 * 2 * 10_000
    assert [[one.full_bytes for one in some] for some in made] == [[whole], [whole, left]]


def test_the_head_of_tuner_has_slices_of_304_mib() -> None:
    """318,767,104 B / (2 x 10,000) = 15,938.4 entries; of 1,000 tokens 159,384, more than all."""
    head = OutputHead(kind=HeadKind.FUSED_TUNER)
    assert of_head(head, training=True) == {"fused_head_gradient": 15_938 * 2 * 10_000}
    assert of_head(head, tokens=1_000, training=True) == {"fused_head_gradient": VOCAB * 2 * 1_000}
    wide = replace(head, logits_dtype=DType.FLOAT32)  # 318,767,104 B / 40,000 = 7,969.2
    assert of_head(wide, training=True) == {"fused_head_gradient": 7_969 * 4 * 10_000}


def test_the_heads_of_slices_are_told_apart_in_words() -> None:
    words = {
        kind: [
            (one.made_by, one.kinds, one.factors[0][1])
            for training in (False, True)
            for one in head_tensors(
                QWEN25_7B, ENGINE, OutputHead(kind=kind), tokens=9, entropy=False, training=training
            )
        ]
        for kind in (HeadKind.FUSED_TRITON, HeadKind.FUSED_TUNER)
    }
    statistics = (("statistics of the slices",), "slices of the vocabulary")
    gradient = (("one slice of the logits' gradient",), "vocabulary entries of a slice")
    assert words[HeadKind.FUSED_TRITON] == [
        ("the fused Triton head", *statistics),
        ("the fused Triton head", *gradient),
    ]
    assert words[HeadKind.FUSED_TUNER] == [
        ("the head of tuner.inside_verl", *statistics),
        ("the head of tuner.inside_verl", *gradient),
    ]


LOGITS, FLOAT32 = VOCAB * 2 * 10_000, VOCAB * 4 * 10_000


@pytest.mark.parametrize(
    ("changes", "entropy", "training", "expected"),
    [
        # Float32 ones are named all the same: a library may make them where nothing here does.
        ({}, False, False, {"logits": LOGITS, "logits_float32": FLOAT32}),
        ({"compiled": False}, True, False, {"logits": LOGITS, "logits_float32": FLOAT32}),
        (
            {"compiled": False, "chunk_tokens": 2048},
            True,
            False,
            {"logits": LOGITS, "logits_chunk_4": 2048 * VOCAB * 4},
        ),
        # What is saved for the backward pass was allocated chunk by chunk as well.
        (
            {"compiled": False, "chunk_tokens": 2048},
            True,
            True,
            {"logits": LOGITS, "logits_chunk_4": 2048 * VOCAB * 4},
        ),
        # Chunks are of the entropy alone.
        (
            {"compiled": False, "chunk_tokens": 2048},
            False,
            True,
            {"logits": LOGITS, "logits_float32": FLOAT32},
        ),
        ({"logits_dtype": DType.FLOAT32}, False, True, {"logits_float32": FLOAT32}),
        ({"float32_loss": True}, False, True, {"logits": LOGITS, "logits_float32": FLOAT32}),
    ],
)
def test_heads_that_have_logits(
    changes: dict[str, object], entropy: bool, training: bool, expected: dict[str, int]
) -> None:
    head = OutputHead(kind=HeadKind.LOGITS, **changes)  # type: ignore[arg-type]
    assert of_head(head, entropy=entropy, training=training) == expected


def test_a_rank_of_megatron_has_its_part_of_the_vocabulary() -> None:
    """152,065 / 4 = 38,016.25 entries."""
    head = OutputHead(kind=HeadKind.LOGITS, scaling=Scaling.IN_PLACE)
    engine = megatron_engine(gpus=8, tensor=4)
    made = of_head(head, model=replace(QWEN25_7B, vocab=152_065), engine=engine)
    assert made["logits"] == 38_017 * 2 * 10_000


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
    one_pass = dynamic(16_384) if dynamically else static(6)
    made = attention_score_tensors(QWEN25_7B, replace(ENGINE, **engine), one_pass, grpo_7b().batch)  # type: ignore[arg-type]
    scores = sequences * heads * 4_096 * 4_096
    assert sizes(made) == {"attention_scores": scores * 2, "attention_scores_float32": scores * 4}


def test_attention_scores_without_a_job_are_of_one_sequence_as_long_as_the_model_reads() -> None:
    scores = 28 * 32_768 * 32_768
    assert sizes(attention_of_unknown_engine(QWEN25_7B)) == {
        "attention_scores": scores * 2,
        "attention_scores_float32": scores * 4,
    }
