"""Megatron's vocabulary-parallel ends: the head with float32 logits of each rank's slice, the embedding."""

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.memory import pass_terms
from tuner.memory.head.logits import LogitTensor, Span, Tensors, bytes_per_column, entropy_chunk
from tuner.memory.ledger.terms import Item, Term
from tuner.memory.pass_terms import PassInput
from tuner.workload import HeadKind, OutputHead, Scaling

_COMPUTE, _FLOAT32 = DType.BFLOAT16.bytes, DType.FLOAT32.bytes


def _float32(*names: str, span: Span = Span.ALL) -> Tensors:
    return tuple(LogitTensor(name=name, bytes_per_logit=_FLOAT32, span=span) for name in names)


def head_tensors(head: OutputHead, *, entropy: bool, training: bool) -> Tensors:
    r"""The tensors at the peak of the head, in bytes per logit of the rank's slice.

    ===================================  ===============  ===============
    pass                                 without entropy  with entropy
    ===================================  ===============  ===============
    forward, up to 0.5                   6                8
    forward, since 0.6                   6                12
    forward, entropy in chunks (0.9)     6                8 + 4 c / T
    training, up to 0.5                  6                8
    training, since 0.6                  8                12
    ===================================  ===============  ===============

    The bfloat16 logits and their float32 copy (6), of which the copy stays (4). The cross entropy
    turns it in place into the softmax, and in the backward pass into the gradient. The entropy reads
    the logits and keeps a softmax of its own, which becomes its gradient (8); since 0.6 the cross
    entropy works on a clone (12). Since then the logits are also divided by the temperature, in
    place; the gradient of that division is a new tensor (8).

    Chunks of :math:`c` tokens shorten only a pass without gradients; with them the softmax of every
    chunk is kept. (With more than one chunk that backward pass fails: the chunks are views of one
    tensor, which each of them changes in place. So does entropy with gradients up to 0.5.)

    Not counted: the product inside the entropy, which is compiled into its sum; another
    :math:`4 \, c / T` where compilation is switched off.

    Source: verl ``workers/engine/megatron/transformer_impl.py`` (``_lm_head_logits_processor``),
    ``workers/actor/megatron_actor.py``, ``utils/megatron/tensor_parallel.py``; Megatron-Core
    ``transformer/module.py`` (``Float16Module``), ``tensor_parallel/cross_entropy.py``.
    """
    in_place = head.scaling is Scaling.IN_PLACE  # the releases that divide the logits also clone them
    if not entropy:
        if training and in_place:
            return _float32("logits", "scaled_gradient")
        return (LogitTensor(name="compute_logits", bytes_per_logit=_COMPUTE), *_float32("logits"))
    span = Span.ALL if training or head.chunk_tokens is None else Span.CHUNK
    clone = ("cloned_logits",) if in_place else ()
    return (*_float32("logits", *clone), *_float32("softmax", span=span))


def head_bytes(head: OutputHead, *, tokens: int, columns: int, entropy: bool, training: bool) -> int:
    """Bytes of :func:`head_tensors` for ``columns`` entries of the vocabulary."""
    tensors = head_tensors(head, entropy=entropy, training=training)
    return columns * bytes_per_column(tensors, tokens, entropy_chunk(head, tokens))


def head_term(given: PassInput, *, training: bool) -> Term:
    r"""The head on the last stage at its peak, over :math:`V_p = V / T_p` columns.

    A fused head works on the same slice, and in the compute dtype; a critic has one column.
    """
    columns, tokens = vocabulary_slice(given), given.tokens
    if given.head.kind is not HeadKind.LOGITS:
        head = replace(given.head, logits_dtype=given.engine.compute_dtype)
        slice_ = replace(given, head=head, model=replace(given.model, vocab=columns))
        return pass_terms.head_term(slice_, training=training)
    return pass_terms.tensors_term(
        "head_backward" if training else "head_forward",
        head_tensors(given.head, entropy=given.entropy, training=training),
        tokens=tokens,
        chunk=entropy_chunk(given.head, tokens),
        columns=("V_p", columns),
        source="memory.megatron.head.head_tensors",
    )


def gathered_hidden(given: PassInput) -> Term | None:
    r"""The head's input, gathered from the tensor-parallel ranks; none on one rank.

    .. math:: T b_c H

    It lies in a buffer that Megatron keeps for the next time.

    Source: Megatron-Core ``tensor_parallel/layers.py`` (``get_global_memory_buffer``).
    """
    if given.engine.parallel.tensor == 1:
        return None
    compute, hidden = given.engine.compute_dtype.bytes, given.model.hidden
    size = given.tokens * compute * hidden
    numbers = {"T": given.tokens, "b_c": compute, "H": hidden}
    source = "memory.megatron.head.gathered_hidden"
    return pass_terms.term(
        Item.ACTIVATIONS, "gathered_hidden", size, "T b_c H", symbols=numbers, source=source
    )


def projection_backward(given: PassInput) -> Term:
    r"""The head's projection differentiated.

    .. math:: T b_c (V_p + H) + b_w V_p H

    The gradient of the logits in the compute dtype, that of the hidden states before it is
    scattered, and the weight's own gradient (:math:`b_w` is 0 where it is added to the buffer at
    once or the weight is frozen).

    Source: Megatron-Core ``tensor_parallel/layers.py``
    (``LinearWithGradAccumulationAndAsyncCommunication``).
    """
    engine, hidden = given.engine, given.model.hidden
    compute, columns = engine.compute_dtype.bytes, vocabulary_slice(given)
    weight = 0 if engine.fused_weight_gradients or engine.lora is not None else compute
    return _own_term(
        "projection_backward",
        given.tokens * compute * (columns + hidden) + weight * columns * hidden,
        "T b_c (V_p + H) + b_w V_p H",
        T=given.tokens,
        b_c=compute,
        V_p=columns,
        H=hidden,
        b_w=weight,
    )


def embedding_backward(given: PassInput) -> Term | None:
    r"""The embedding differentiated, on the first stage; none where it is frozen.

    .. math:: T b_c H + b_w V_p H

    The gathered gradient of its output and the gradient of the rank's whole slice of the matrix,
    however few of its rows the tokens touch. No fusion adds that one to the buffer at once.

    Source: Megatron-Core ``tensor_parallel/layers.py`` (``VocabParallelEmbedding``).
    """
    if given.engine.lora is not None:
        return None
    compute, hidden, columns = given.engine.compute_dtype.bytes, given.model.hidden, vocabulary_slice(given)
    return _own_term(
        "embedding_backward",
        given.tokens * compute * hidden + compute * columns * hidden,
        "T b_c H + b_w V_p H",
        T=given.tokens,
        b_c=compute,
        V_p=columns,
        H=hidden,
        b_w=compute,
    )


def _own_term(name: str, size: int, formula: str, **symbols: int) -> Term:
    source = f"memory.megatron.head.{name}"
    return pass_terms.term(Item.LOGITS, name, size, formula, symbols=symbols, source=source)


def vocabulary_slice(given: PassInput) -> int:
    """Vocabulary entries of this rank."""
    return -(-given.model.vocab // given.engine.parallel.tensor)
