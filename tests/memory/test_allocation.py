"""What an out-of-memory message's size is explained as."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests import workloads
from tuner.dtypes import DType
from tuner.errors import InputError
from tuner.memory.failed_allocation.explanation import (
    Confidence,
    FailedAllocation,
    match,
    matches,
    parse_failed_allocation,
    requested_bytes,
)
from tuner.memory.failed_allocation.pass_tensors import logits_of_unknown_head
from tuner.memory.failed_allocation.state_tensors import weight_tensors
from tuner.memory.failed_allocation.tensor import Tensor
from tuner.memory.failed_allocation.tensors import tensors
from tuner.models import find_model
from tuner.units import GIB, MIB
from tuner.workload import HeadKind, Phase, Workload

NEW_LINE = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 13.91 GiB. GPU 0 has a total capacity of "
    "79.11 GiB of which 8.85 GiB is free. Process 7 has 70.25 GiB memory in use. Of the allocated memory "
    "60.49 GiB is allocated by PyTorch, and 6.77 GiB is reserved by PyTorch but unallocated."
)
OLD_LINE = (
    "RuntimeError: CUDA out of memory. Tried to allocate 98.00 MiB (GPU 0; 21.99 GiB total capacity; "
    "18.50 GiB already allocated; 33.38 MiB free; 19.00 GiB reserved in total by PyTorch)"
)


def reported(size: int) -> str:
    """How torch words the request for a tensor of this size."""
    block = 2 * MIB if size <= MIB else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
    return f"{block / GIB:.2f} GiB" if block > GIB else f"{block / MIB:.2f} MiB"


def first(workload: Workload, text: str) -> tuple[Tensor, Confidence, int | None]:
    best = matches(parse_failed_allocation(text), tensors(workload))[0]
    return best.tensor, best.confidence, best.tokens


@pytest.mark.parametrize("text", ["13.91 GiB", " 13.91 GiB ", NEW_LINE, NEW_LINE.replace(" ", "\n   ")])
def test_a_size_and_a_whole_line_say_the_same(text: str) -> None:
    failed = parse_failed_allocation(text)
    assert failed.text == "13.91 GiB"
    assert failed.bytes == round(13.91 * GIB)
    assert failed.low_bytes < failed.bytes < failed.high_bytes


def test_what_was_left_on_the_card_is_read_from_the_line() -> None:
    new, old = parse_failed_allocation(NEW_LINE), parse_failed_allocation(OLD_LINE)
    assert (new.free_bytes, new.unused_bytes) == (round(8.85 * GIB), round(6.77 * GIB))
    assert (old.free_bytes, old.unused_bytes) == (round(33.38 * MIB), GIB // 2)
    assert parse_failed_allocation("13.91 GiB").free_bytes is None


@pytest.mark.parametrize("text", ["", "a lot", "13.91", "13.91 GB", "79.11 GiB total", "Tried to allocate x"])
def test_a_text_without_a_failed_allocation_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no failed allocation") as error:
        parse_failed_allocation(text)
    assert error.value.hint is not None and "18.54 GiB" in error.value.hint


@given(size=st.integers(1, 200 * GIB))
def test_the_tensor_lies_in_the_interval_of_its_own_message(size: int) -> None:
    failed = parse_failed_allocation(reported(size))
    assert failed.low_bytes <= size <= failed.high_bytes


def test_the_interval_is_the_rounding_and_no_more() -> None:
    """Two decimals of a GiB and one block of 2 MiB."""
    failed = parse_failed_allocation("13.91 GiB")
    assert failed.high_bytes - failed.low_bytes < 0.01 * GIB + 2 * MIB
    assert requested_bytes(98 * MIB, 98 * MIB) == (96 * MIB + 1, 98 * MIB)
    assert requested_bytes(20 * MIB, 20 * MIB) == (MIB + 1, 20 * MIB)
    assert requested_bytes(2 * MIB, 2 * MIB) == (1, MIB)
    assert requested_bytes(97 * MIB, 97 * MIB) == (97 * MIB, 97 * MIB)  # no block has that size


@given(tokens=st.integers(2_000, 60_000), float32=st.booleans())
def test_logits_are_solved_for_their_tokens(tokens: int, float32: bool) -> None:
    own, upcast = logits_of_unknown_head(vocab=151_936, tokens=0, dtype=DType.BFLOAT16)
    tensor = upcast if float32 else own
    found = match(tensor, parse_failed_allocation(reported(tokens * 151_936 * tensor.dtype_bytes)))
    assert found is not None and found.tokens is not None
    assert found.low_tokens is not None and found.high_tokens is not None
    assert found.low_tokens <= tokens <= found.high_tokens
    # 5.12 MiB of rounding and a block of 2 MiB, 0.29 MiB a token
    assert abs(found.tokens - tokens) <= 25 or found.tokens % 1024 == 0
    assert found.high_tokens - found.low_tokens <= 43


@given(thousands=st.integers(2, 60), float32=st.booleans())
def test_a_round_number_of_tokens_is_named_where_it_gives_the_figure(thousands: int, float32: bool) -> None:
    """At two decimals of a GiB 49,152 and 49,151 tokens are the same."""
    own, upcast = logits_of_unknown_head(vocab=151_936, tokens=0, dtype=DType.BFLOAT16)
    tensor, tokens = (upcast if float32 else own), thousands * 1024
    found = match(tensor, parse_failed_allocation(reported(tokens * 151_936 * tensor.dtype_bytes)))
    assert found is not None and found.tokens == tokens


def test_a_full_micro_batch_is_an_exact_match() -> None:
    """16,384 tokens of a budget of 16,384."""
    size = 16_384 * 152_064 * 2
    tensor, confidence, tokens = first(workloads.grpo_7b(), reported(size))
    assert (tensor.name, confidence, tokens) == ("logits", Confidence.EXACT, 16_384)
    assert Phase.UPDATE_ACTOR in tensor.phases


def test_more_than_half_a_micro_batch_is_likely_and_tells_the_dtypes_apart() -> None:
    tensor, confidence, tokens = first(workloads.grpo_7b(), reported(13_001 * 152_064 * 4))
    assert (tensor.name, confidence) == ("logits_float32", Confidence.LIKELY)
    assert tokens is not None and abs(tokens - 13_001) < 20


def test_a_fused_head_is_never_said_to_make_whole_logits() -> None:
    workload = workloads.grpo_7b()
    head = replace(workload.actor.head, kind=HeadKind.FUSED_TORCH)
    fused = workload.with_actor_head(kind=HeadKind.FUSED_TORCH).with_reference(head=head)
    found = matches(parse_failed_allocation(reported(16_384 * 152_064 * 2)), tensors(fused))
    assert not any(one.tensor.name.startswith("logits") for one in found if one.claimed)


# Allocations that are something else: which tensor, at its own size.
ELSE = {
    "actor_layer_gathered": Confidence.EXACT,
    "actor_layer_shard_4": Confidence.EXACT,
    "actor_head_unit_gathered": Confidence.EXACT,
    "actor_embedding_4": Confidence.EXACT,
    "sync_bucket": Confidence.EXACT,
    "mlp": Confidence.EXACT,
    "hidden_states": Confidence.EXACT,
}


@pytest.mark.parametrize("name", ELSE)
def test_what_is_no_logits_is_not_claimed_to_be(name: str) -> None:
    workload = workloads.grpo_7b()
    made = next(tensor for tensor in tensors(workload) if tensor.name == name)
    failed = parse_failed_allocation(reported(made.full_bytes))
    found = matches(failed, tensors(workload))
    sure = [one.tensor.name for one in found if one.confidence is Confidence.EXACT]
    assert name in sure and "logits" not in sure and "logits_float32" not in sure
    assert found[0].confidence is ELSE[name]


def test_attention_scores_are_a_square_of_tokens() -> None:
    """Gemma's heads of 256 had no flash attention on some cards: [heads, S, S] came back."""
    workload = workloads.grpo_7b()
    longest = workload.batch.sequence_tokens
    tensor, confidence, tokens = first(workload, reported(28 * longest**2 * 4))
    assert (tensor.name, confidence, tokens) == ("attention_scores_float32", Confidence.EXACT, longest)
    assert tensor.full_bytes == 28 * longest**2 * 4


def test_sequences_longer_than_the_longest_come_after_micro_batches_that_are_too_full() -> None:
    """65,536 tokens of logits are four budgets; 18,864 tokens are no sequence of this job."""
    found = matches(parse_failed_allocation("37.12 GiB"), tensors(workloads.grpo_7b()))
    confidences = [one.confidence for one in found]
    assert found[0].tensor.name == "logits_float32"
    assert set(confidences) == {Confidence.OVERFULL, Confidence.TOO_LONG}
    assert confidences == sorted(confidences, key=list(Confidence).index)
    assert all(one.tensor.quadratic == (one.confidence is Confidence.TOO_LONG) for one in found)


def test_a_size_that_nothing_has_is_claimed_by_nothing() -> None:
    failed = FailedAllocation(text="", bytes=61, low_bytes=60, high_bytes=62)
    assert matches(failed, tensors(workloads.grpo_7b())) == ()


def test_more_tokens_than_a_micro_batch_holds_are_no_claim() -> None:
    found = matches(parse_failed_allocation(reported(50_000 * 152_064 * 4)), tensors(workloads.grpo_7b()))
    assert found and not any(one.claimed for one in found)
    assert (found[0].tensor.name, found[0].confidence) == ("logits_float32", Confidence.OVERFULL)


@pytest.mark.parametrize("make", workloads.ALL)
def test_every_tensor_is_made_of_whole_numbers_and_explains_its_own_size(make: object) -> None:
    for tensor in tensors(make()):  # type: ignore[operator]
        assert type(tensor.full_bytes) is int and tensor.full_bytes > 0
        found = match(tensor, parse_failed_allocation(reported(tensor.full_bytes)))
        assert found is not None and found.confidence is Confidence.EXACT, tensor


def test_the_weights_of_a_model_are_known_without_a_job() -> None:
    model = find_model("qwen2.5-7b")
    names = [
        one.tensor.name
        for one in matches(parse_failed_allocation(reported(152_064 * 3_584 * 4)), weight_tensors(model))
    ]
    assert names == ["embedding_float32"]
