"""Megatron's vocabulary-parallel ends: the head with float32 logits of each rank's slice, the embedding."""

from msgspec.structs import replace

from tuner.dtypes import DType
from tuner.evidence import Evidence
from tuner.memory.batch.micro_batch import PassInput
from tuner.memory.head.tensors import LogitTensor, Tensors, TokenSpan, logit_sized
from tuner.memory.head.terms import peak_name, tensors_term, term_without_logits
from tuner.memory.ledger.formula import ceil_div
from tuner.memory.ledger.stated_terms import Size, stated
from tuner.memory.ledger.terms import Item, Term
from tuner.workload import HeadKind, OutputHead, Scaling

SYMBOLS = {
    "compute_logits": "the logits in the compute dtype, bytes per logit",
}

_COMPUTE, _FLOAT32 = DType.BFLOAT16.bytes, DType.FLOAT32.bytes


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

    Where a log-softmax of every column is written out, the logits, what the largest of each row is taken
    from, and its exponentials exist at once: 12, more than the saved softmax and its gradient later.

    Not counted: the product inside the entropy, which is compiled into its sum; another
    :math:`4 \, c / T` where compilation is switched off.

    Source: verl ``workers/engine/megatron/transformer_impl.py`` (``_lm_head_logits_processor``),
    ``workers/actor/megatron_actor.py``, ``utils/megatron/tensor_parallel.py``; Megatron-Core
    ``transformer/module.py`` (``Float16Module``), ``tensor_parallel/cross_entropy.py``; NeMo-RL v0.7.0
    ``distributed/model_utils.py`` (``DistributedLogprob``).
    """
    if head.takes_columns:
        gradient = ("logits_gradient",) if training else ()
        return logit_sized(_FLOAT32, "logits", *gradient)
    if head.log_softmax:
        return logit_sized(_FLOAT32, "logits", "shifted_logits", "exponentials")
    if not entropy:
        if training and head.scaling is Scaling.IN_PLACE:
            return logit_sized(_FLOAT32, "logits", "scaled_gradient")
        return (
            LogitTensor(name="compute_logits", bytes_per_logit=_COMPUTE),
            *logit_sized(_FLOAT32, "logits"),
        )
    span = TokenSpan.ALL if training or head.chunk_tokens is None else TokenSpan.CHUNK
    clone = ("cloned_logits",) if head.clones_logits else ()
    return (*logit_sized(_FLOAT32, "logits", *clone), *logit_sized(_FLOAT32, "softmax", span=span))


def head_term(micro_batch: PassInput, *, training: bool) -> Term:
    r"""The head on the last stage at its peak, over :math:`V_p = V / T_p` columns.

    A fused head works on the same slice, and in the compute dtype; a critic has one column.
    """
    columns, head = vocabulary_slice(micro_batch), micro_batch.head
    if head.kind is not HeadKind.LOGITS:
        head = replace(head, logits_dtype=micro_batch.engine.compute_dtype)
        # As a plain number: its symbol is that of the whole vocabulary.
        return term_without_logits(replace(micro_batch, head=head), columns=int(columns), training=training)
    return tensors_term(
        peak_name(training=training),
        head_tensors(head, entropy=micro_batch.entropy, training=training),
        head,
        tokens=micro_batch.tokens,
        columns=("V_p", columns),
        source=head_tensors,
    )


def gathered_hidden_bytes(*, T: int, b_c: int, H: int) -> int:
    """The head's input, gathered from the tensor-parallel ranks.

    It lies in a buffer that Megatron keeps for the next time.

    Source: Megatron-Core ``tensor_parallel/layers.py`` (``get_global_memory_buffer``).
    """
    return T * b_c * H


def gathered_hidden(micro_batch: PassInput) -> Term | None:
    """The head's input as a whole; None on one rank, where it is whole already."""
    if micro_batch.engine.parallel.tensor == 1:
        return None
    numbers = _numbers(micro_batch)
    return stated(
        Item.ACTIVATIONS, "gathered_hidden", gathered_hidden_bytes, numbers, evidence=Evidence.MODELLED
    )


def projection_backward_bytes(*, T: int, b_c: int, V_p: int, H: int, b_w: int) -> int:
    """The head's projection differentiated.

    The gradient of the logits in the compute dtype, that of the hidden states before it is
    scattered, and the weight's own gradient (:math:`b_w` is 0 where it is added to the buffer at
    once or the weight is frozen).

    Source: Megatron-Core ``tensor_parallel/layers.py``
    (``LinearWithGradAccumulationAndAsyncCommunication``).
    """
    return T * b_c * (V_p + H) + b_w * V_p * H


def projection_backward(micro_batch: PassInput) -> Term:
    """Gradients while the projection is differentiated."""
    engine = micro_batch.engine
    own_gradient = not engine.fused_weight_gradients and engine.lora is None
    weight = engine.compute_dtype.bytes if own_gradient else 0
    return _own_term("projection_backward", projection_backward_bytes, micro_batch, weight)


def embedding_backward_bytes(*, T: int, b_c: int, H: int, b_w: int, V_p: int) -> int:
    """The embedding differentiated, on the first stage.

    The gathered gradient of its output and the gradient of the rank's whole slice of the matrix,
    however few of its rows the tokens touch. No fusion adds that one to the buffer at once.

    Source: Megatron-Core ``tensor_parallel/layers.py`` (``VocabParallelEmbedding``).
    """
    return T * b_c * H + b_w * V_p * H


def embedding_backward(micro_batch: PassInput) -> Term | None:
    """Gradients while the embedding is differentiated; None where it is frozen."""
    if micro_batch.engine.lora is not None:
        return None
    weight = micro_batch.engine.compute_dtype.bytes
    return _own_term("embedding_backward", embedding_backward_bytes, micro_batch, weight)


def _own_term(name: str, size: Size, micro_batch: PassInput, weight_gradient: int) -> Term:
    numbers = {**_numbers(micro_batch), "b_w": weight_gradient}
    return stated(Item.LOGITS, name, size, numbers, evidence=Evidence.MODELLED)


def _numbers(micro_batch: PassInput) -> dict[str, int]:
    return {
        "T": micro_batch.tokens,
        "b_c": micro_batch.engine.compute_dtype.bytes,
        "H": micro_batch.model.hidden,
        "V_p": vocabulary_slice(micro_batch),
    }


def vocabulary_slice(micro_batch: PassInput) -> int:
    """Vocabulary entries of this rank."""
    return ceil_div(micro_batch.model.vocab, micro_batch.engine.parallel.tensor)
