"""Terms of the output head in a pass: the logits, what the model makes of them, and the head at its peak."""

from collections.abc import Callable
from typing import Any

from tuner.evidence import Evidence
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.batch.padded_response import PaddedResponse
from tuner.memory.head.fused import fused_head_size
from tuner.memory.head.logits import copies_bytes, logit_tensors, logits_bytes
from tuner.memory.head.response import response_tensors
from tuner.memory.head.tensors import Tensors, entropy_chunk, last_chunk, tensor_bytes, tensor_formula
from tuner.memory.head.value import value_head_size
from tuner.memory.ledger.formula import names
from tuner.memory.ledger.stated_terms import Size, bytes_of, path_of, stated
from tuner.memory.ledger.terms import Item, Term
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
    head: OutputHead,
    *,
    tokens: int,
    vocab: int,
    hidden: int,
    entropy: bool,
    training: bool,
    response: PaddedResponse | None = None,
) -> int:
    """Peak of one pass through the head, weights and hidden states not counted.

    Args:
        head: how it is computed.
        tokens: tokens of the micro-batch on this GPU.
        vocab: vocabulary entries on this GPU; 0 for a model with a value head.
        hidden: hidden width.
        entropy: whether this pass computes the entropy (a fused head always does).
        training: True for forward and backward, False for forward only.
        response: the tokens whose logits it computes with; None: all of them.
    """
    if head.kind is HeadKind.LOGITS and response is not None:
        sliced = response_tensors(head, response, tokens=tokens, entropy=entropy, training=training)
        rows = response.rows(tokens)
        return tensor_bytes(sliced, tokens=tokens, chunk=tokens, columns=vocab, response=rows)
    if head.kind is HeadKind.LOGITS:
        tensors = logit_tensors(head, tokens=tokens, entropy=entropy, training=training)
        return tensor_bytes(tensors, tokens=tokens, chunk=entropy_chunk(head, tokens), columns=vocab)
    size = size_without_logits(head, tokens=tokens, wraps_language_model=vocab > 0, training=training)
    return bytes_of(size, {**head_numbers(head), "T": tokens, "V": vocab, "H": hidden})


def logits_term(micro_batch: PassInput) -> Term:
    """The logits alone, while the projection runs."""
    numbers = _logit_numbers(micro_batch)
    return stated(Item.LOGITS, "logits", logits_bytes, numbers, evidence=Evidence.MODELLED)


def copies_term(micro_batch: PassInput, name: str, copies: int) -> Term:
    """So many tensors that the model makes of its logits."""
    numbers = {"n_c": copies, **_logit_numbers(micro_batch)}
    return stated(Item.LOGITS, name, copies_bytes, numbers, evidence=Evidence.MODELLED)


def _logit_numbers(micro_batch: PassInput) -> dict[str, int]:
    return {
        "T": micro_batch.tokens,
        "V": micro_batch.model.vocab,
        "logits": micro_batch.head.logits_dtype.bytes,
    }


def peak_name(*, training: bool) -> str:
    """The name of the term of a head at its peak."""
    return "head_backward" if training else "head_forward"


def head_term(micro_batch: PassInput, *, training: bool) -> Term:
    """The output head at its peak, every tensor by name; of one GPU that has the whole vocabulary."""
    head, tokens, vocab = micro_batch.head, micro_batch.tokens, micro_batch.model.vocab
    if head.kind is not HeadKind.LOGITS:
        return term_without_logits(micro_batch, columns=vocab, training=training)
    name, response = peak_name(training=training), micro_batch.response
    if response is not None:
        return tensors_term(
            name,
            response_tensors(head, response, tokens=tokens, entropy=micro_batch.entropy, training=training),
            head,
            tokens=tokens,
            columns=("V", vocab),
            source=response_tensors,
            response=response.rows(tokens),
        )
    tensors = logit_tensors(head, tokens=tokens, entropy=micro_batch.entropy, training=training)
    return tensors_term(name, tensors, head, tokens=tokens, columns=("V", vocab), source=logit_tensors)


def term_without_logits(micro_batch: PassInput, *, columns: int, training: bool) -> Term:
    """A head at its peak whose logits never exist; ``columns`` are the vocabulary entries of this GPU."""
    model, head = micro_batch.model, micro_batch.head
    size = size_without_logits(
        head,
        tokens=micro_batch.tokens,
        wraps_language_model=not model.value_head,
        training=training,
    )
    numbers = {**head_numbers(head), "T": micro_batch.tokens, "V": columns, "H": model.hidden}
    return stated(Item.LOGITS, peak_name(training=training), size, numbers, evidence=Evidence.MODELLED)


def tensors_term(
    name: str,
    tensors: Tensors,
    head: OutputHead,
    *,
    tokens: int,
    columns: tuple[str, int],
    source: Callable[..., Any],
    response: int | None = None,
) -> Term:
    """A head whose logits exist, as the sum of its tensors.

    Args:
        name: the term's name.
        tensors: what exists at the peak; their names are symbols of the formula.
        head: how it is computed.
        tokens: rows of the logits.
        columns: vocabulary entries of this GPU, and their symbol.
        source: the function that lists the tensors.
        response: rows of the tensors of responses alone, where there are such tensors.
    """
    symbol, count = columns
    chunk = entropy_chunk(head, tokens)
    numbers = {"T": tokens, "T_c": chunk, "T_l": last_chunk(tokens, chunk), symbol: count}
    if response is not None:
        numbers["T_r"] = response
    numbers.update((tensor.name, tensor.bytes_per_logit) for tensor in tensors)
    formula = tensor_formula(tensors, symbol)
    return Term(
        item=Item.LOGITS,
        name=name,
        bytes=tensor_bytes(tensors, tokens=tokens, chunk=chunk, columns=count, response=response),
        evidence=Evidence.MODELLED,
        formula=formula,
        symbols=tuple([(name, numbers[name]) for name in names(formula)]),
        source=path_of(source),
    )
