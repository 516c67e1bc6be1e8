"""The most that a pass through an output head takes, whatever way it is computed."""

from tuner.memory.head.fused import fused_head_size
from tuner.memory.head.logits import logit_tensors
from tuner.memory.head.tensors import entropy_chunk, tensor_bytes
from tuner.memory.head.value import value_head_size
from tuner.memory.ledger.stated_terms import Size, bytes_of
from tuner.workload import HeadKind, OutputHead


def size_without_logits(head: OutputHead, *, tokens: int, wraps_language_model: bool, training: bool) -> Size:
    """What sizes a head whose logits never exist: a fused one, or a critic's single column."""
    if head.kind is HeadKind.VALUE:
        return value_head_size(wraps_language_model=wraps_language_model, training=training)
    return fused_head_size(head, tokens=tokens, training=training)


def head_numbers(head: OutputHead) -> dict[str, float]:
    """What a head says itself of the symbols of its formulas."""
    return {"b": head.logits_dtype.bytes, "T_f": head.fused_chunk_tokens}


def head_peak_bytes(
    head: OutputHead, *, tokens: int, vocab: int, hidden: int, entropy: bool, training: bool
) -> int:
    """Peak of one pass through the head, weights and hidden states not counted.

    Args:
        head: how it is computed.
        tokens: tokens of the micro-batch on this GPU.
        vocab: vocabulary entries on this GPU; 0 for a model with a value head.
        hidden: hidden width.
        entropy: whether this pass computes the entropy (a fused head always does).
        training: True for forward and backward, False for forward only.
    """
    if head.kind is HeadKind.LOGITS:
        tensors = logit_tensors(head, tokens=tokens, entropy=entropy, training=training)
        return tensor_bytes(tensors, tokens=tokens, chunk=entropy_chunk(head, tokens), columns=vocab)
    size = size_without_logits(head, tokens=tokens, wraps_language_model=vocab > 0, training=training)
    return bytes_of(size, {**head_numbers(head), "T": tokens, "V": vocab, "H": hidden})
