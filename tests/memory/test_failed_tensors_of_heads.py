"""The sizes of an output head's tensors, as a failed allocation is compared with them, worked out by hand."""

import pytest
from msgspec.structs import replace

from tests.workloads import QWEN25_7B, fsdp_engine, megatron_engine
from tuner.dtypes import DType
from tuner.memory.failed_allocation.pass_tensors import head_tensors, logits_of_unknown_head
from tuner.model_shape import ModelShape
from tuner.workload import Engine, HeadKind, OutputHead, Scaling

ENGINE = fsdp_engine(gpus=8)
VOCAB = 152_064
QWEN_151_936 = replace(QWEN25_7B, vocab=151_936)


def of_head(
    head: OutputHead,
    *,
    model: ModelShape = QWEN25_7B,
    engine: Engine = ENGINE,
    tokens: int = 10_000,
    entropy: bool = False,
    training: bool = False,
) -> dict[str, int]:
    made = head_tensors(model, engine, head, tokens=tokens, entropy=entropy, training=training)
    return {tensor.name: tensor.full_bytes for tensor in made}


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


EAGER = ("softmax", "logsumexp copy", "product")
CHUNKED = ("softmax gradient", "difference", "exponential", "logsumexp gradient", "product gradient")


@pytest.mark.parametrize(
    ("changes", "entropy", "training", "expected"),
    [
        ({"scaling": Scaling.COPY}, False, False, {"logits": ("logits", "scaled logits")}),
        ({"scaling": Scaling.COPY}, False, True, {"logits": ("logits", "scaled logits", "scaled gradient")}),
        # A compiled entropy keeps the gradients of its chunks until they are joined.
        (
            {"chunk_tokens": 2048},
            True,
            True,
            {
                "logits": ("logits", "cross entropy gradient", "entropy gradient"),
                "logits_float32": ("chunk gradients",),
            },
        ),
        # PyTorch's own loss is of all tokens, whatever the entropy has in chunks.
        (
            {"float32_loss": True, "compiled": False, "chunk_tokens": 2048},
            False,
            True,
            {
                "logits": ("logits", "log softmax"),
                "logits_float32": ("float32 log softmax", "loss gradient"),
            },
        ),
        # Of what is saved before a chunk, each part was allocated with its own chunk.
        (
            {"compiled": False, "chunk_tokens": 2048, "checkpointed": True},
            True,
            True,
            {
                "logits": ("logits", "cross entropy gradient", "entropy gradient"),
                "logits_chunk_4": (*EAGER, *CHUNKED),
            },
        ),
        # With 78 small chunks the gradient of a slice decides, as large as all logits, and that of a chunk.
        (
            {"compiled": False, "chunk_tokens": 128, "checkpointed": True},
            True,
            True,
            {
                "logits": ("logits", "cross entropy gradient", "entropy gradient", "slice gradient"),
                "logits_chunk_4": EAGER,
                "logits_chunk_2": ("chunk gradient",),
            },
        ),
    ],
)
def test_what_tensors_of_the_logits_can_be(
    changes: dict[str, object], entropy: bool, training: bool, expected: dict[str, tuple[str, ...]]
) -> None:
    head = OutputHead(kind=HeadKind.LOGITS, **changes)  # type: ignore[arg-type]
    made = head_tensors(QWEN25_7B, ENGINE, head, tokens=10_000, entropy=entropy, training=training)
    assert {one.name: one.kinds for one in made if "models that" not in one.made_by} == expected


MEGATRON = OutputHead(kind=HeadKind.LOGITS, scaling=Scaling.IN_PLACE)


@pytest.mark.parametrize(
    ("changes", "entropy", "training", "expected"),
    [
        ({}, False, False, {"logits": ("compute logits",), "logits_float32": ("logits",)}),
        ({}, False, True, {"logits": ("compute logits",), "logits_float32": ("logits", "scaled gradient")}),
        ({}, True, True, {"logits_float32": ("logits", "softmax")}),
        (
            {"chunk_tokens": 2048},
            True,
            False,
            {"logits_float32": ("logits",), "logits_chunk_4": ("softmax",)},
        ),
    ],
)
def test_what_megatrons_logits_can_be(
    changes: dict[str, object], entropy: bool, training: bool, expected: dict[str, tuple[str, ...]]
) -> None:
    engine, head = megatron_engine(gpus=8, tensor=1), replace(MEGATRON, **changes)  # type: ignore[arg-type]
    made = head_tensors(QWEN25_7B, engine, head, tokens=10_000, entropy=entropy, training=training)
    assert {one.name: one.kinds for one in made} == expected


def test_float32_logits_that_nothing_makes_are_named_by_what_may_make_them() -> None:
    head = OutputHead(kind=HeadKind.LOGITS)
    plain, fallback = (
        head_tensors(QWEN25_7B, ENGINE, head, tokens=9, entropy=entropy, training=False)[-1]
        for entropy in (False, True)
    )
    assert plain.made_by.startswith("models that return float32 logits")
    assert fallback.made_by.startswith("the entropy where torch.compile fell back")
    assert plain.kinds == fallback.kinds == (*EAGER, "gradient")


def test_a_fused_chunk_can_be_the_logits_or_what_their_softmax_needs() -> None:
    head = OutputHead(kind=HeadKind.FUSED_TORCH)
    (made,) = head_tensors(QWEN25_7B, ENGINE, head, tokens=9, entropy=False, training=False)
    assert made.kinds == ("logits", *EAGER, "gradient")


def test_a_critic_has_no_tensor_as_wide_as_the_vocabulary() -> None:
    assert of_head(OutputHead(kind=HeadKind.VALUE), training=True) == {}


def test_logits_of_an_unknown_head_are_one_tensor_where_they_are_float32() -> None:
    own, upcast = logits_of_unknown_head(vocab=11, tokens=3, dtype=DType.BFLOAT16)
    assert (own.name, own.full_bytes) == ("logits", 66)
    assert (upcast.name, upcast.full_bytes) == ("logits_float32", 132)
    (alone,) = logits_of_unknown_head(vocab=11, tokens=3, dtype=DType.FLOAT32)
    assert (alone.name, alone.full_bytes) == ("logits_float32", 132)


def test_a_rank_of_megatron_has_its_part_of_the_vocabulary() -> None:
    """152,065 / 4 = 38,016.25 entries."""
    head = OutputHead(kind=HeadKind.LOGITS, scaling=Scaling.IN_PLACE)
    engine = megatron_engine(gpus=8, tensor=4)
    made = of_head(head, model=replace(QWEN25_7B, vocab=152_065), engine=engine)
    assert made["logits"] == 38_017 * 2 * 10_000
