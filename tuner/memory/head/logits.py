"""The output head: logits, log-probabilities, entropy and their gradients.

What counts is bytes per logit, that is per token and vocabulary entry, the logits tensor itself
included, weights and their gradient not. :math:`b` are bytes of the logits' dtype (2 for bfloat16),
:math:`T` the tokens, :math:`T_c` those of one chunk. The figures are those of the tensors that the
released code allocates under autocast (softmax, logsumexp and sum run in float32), each by name.
"""

from enum import Enum

from msgspec import Struct

from tuner.dtypes import DType
from tuner.memory.head.fused import fused_forward_bytes, fused_training_bytes, value_head_bytes
from tuner.workload import HeadKind, OutputHead, Scaling

_FLOAT32 = DType.FLOAT32.bytes


class Span(Enum):
    """Which tokens a tensor of the head has a row for; the values are what formulas write."""

    ALL = "T"
    CHUNK = "T_c"
    LAST = "T_l"  # the last chunk, of as many tokens as are left
    BEFORE_LAST = "(T - T_l)"
    BEFORE_LAST_TWO = "(T - T_l - T_c)"


def last_chunk(tokens: int, chunk: int) -> int:
    """Tokens of the last chunk, :math:`T_l`."""
    return tokens - chunk * ((tokens - 1) // chunk)


class LogitTensor(Struct, frozen=True, kw_only=True):
    """One tensor with a row for each token of its span and a column for each vocabulary entry."""

    name: str  # stable identifier
    bytes_per_logit: int
    span: Span = Span.ALL

    def bytes_per_column(self, tokens: int, chunk: int) -> int:
        """Bytes for one vocabulary entry."""
        last = last_chunk(tokens, chunk)
        rows = {
            Span.ALL: tokens,
            Span.CHUNK: chunk,
            Span.LAST: last,
            Span.BEFORE_LAST: tokens - last,
            Span.BEFORE_LAST_TWO: max(0, tokens - last - chunk),
        }
        return self.bytes_per_logit * rows[self.span]


Tensors = tuple[LogitTensor, ...]


def _tensors(bytes_per_logit: int, *names: str, span: Span = Span.ALL) -> Tensors:
    return tuple(LogitTensor(name=name, bytes_per_logit=bytes_per_logit, span=span) for name in names)


def entropy_chunk(head: OutputHead, tokens: int) -> int:
    """Tokens of one chunk of the entropy, :math:`T_c`; all of them where it is not computed in chunks."""
    return tokens if head.chunk_tokens is None else min(head.chunk_tokens, tokens)


def _forward_names(head: OutputHead) -> tuple[str, ...]:
    return ("logits", "scaled_logits") if head.scaling is Scaling.COPY else ("logits",)


def forward_tensors(head: OutputHead, *, entropy: bool) -> Tensors:
    r"""What a forward pass has at once.

    The logits as the model returns them, :math:`b`; twice that while a scaled copy is made. The
    entropy, compiled, adds nothing: one kernel reads the logits. Eager it adds softmax, the float32
    copy inside logsumexp, and the product of the two, :math:`3 \cdot 4`, of one chunk at a time:
    :math:`12 \, T_c / T`.

    Source: verl ``utils/torch_functional.py``, ``entropy_from_logits`` and ``..._with_chunking``.
    """
    found = _tensors(head.logits_dtype.bytes, *_forward_names(head))
    if not entropy or head.compiled:
        return found
    span = Span.ALL if head.chunk_tokens is None else Span.CHUNK
    return found + _tensors(_FLOAT32, "softmax", "logsumexp_copy", "product", span=span)


def log_prob_training_tensors(head: OutputHead) -> Tensors:
    r"""Peak of the backward pass without entropy.

    Flash-attention's cross entropy writes the gradient over the logits: :math:`b`. Dividing by
    the temperature into a copy adds that copy's gradient, :math:`2 b`; dividing in place makes
    autograd keep and copy slices, :math:`4 b`. Without that kernel, log-softmax is saved row by
    row and its gradient is a new tensor: :math:`3 b`.
    """
    names: tuple[str, ...] = ("logits",)
    if head.scaling is Scaling.IN_PLACE:
        names = ("logits", "logits_gradient", "slices", "slice_gradients")
    elif not head.fused_cross_entropy:
        names = ("logits", "log_softmax", "logits_gradient")
    elif head.scaling is Scaling.COPY:
        names = ("logits", "scaled_gradient")
    return _tensors(head.logits_dtype.bytes, *names)


# In the entropy's backward pass, when it is at logsumexp.
_WORKING = ("softmax_gradient", "difference", "exponential", "logsumexp_gradient")


def _beside_entropy(head: OutputHead) -> tuple[tuple[str, ...], bool]:
    """What else exists in the eager entropy's backward pass, and whether its own gradient is one more.

    Scaled in place (up to verl 0.8) the entropy comes after the log-probability, so that its backward pass is
    the first, and cross entropy still holds the logits. Else that is done, and its gradient waits for the
    entropy's to be added to it. A checkpoint holds its input, and gathers the gradient of a detached one.
    """
    if head.scaling is Scaling.IN_PLACE:
        return ("logits",), True
    if head.checkpointed:
        return ("logits", "cross_entropy_gradient"), True
    return ("cross_entropy_gradient",), False


def entropy_training_tensors(head: OutputHead, tokens: int) -> Tensors:
    r"""Peak of both passes with entropy.

    * compiled: logits and one gradient each from cross entropy and entropy, :math:`3 b`;
    * compiled in chunks: the chunks' float32 gradients are kept until they are joined,
      :math:`3 b + 4` (see below);
    * eager: the gradient of cross entropy, softmax and its gradient, and logsumexp's copy, difference,
      exponential and gradient, :math:`b + 24`;
    * eager in chunks: see :func:`chunked_training_tensors`;
    * eager and scaled in place: the logits and the entropy's own gradient in place of that of cross entropy,
      :math:`2 b + 24`; eager and checkpointed, but not scaled in place: all three, :math:`3 b + 24`.

    In-place temperature scaling adds :math:`b` to the compiled entropy: autograd copies slices of the
    gradient, after the entropy's own backward pass, which needs more where it is eager or in chunks.

    What a compiled entropy saves is the same for any number of chunks, the logits and some numbers of a row.
    How many chunks' gradients exist at once is decided by the compiler, whose heuristics fuse some of
    them into the last kernel: in its code for an H200 they take 0, 1.3, 3, 4.8, 4, 3.7, 3.75 bytes per
    logit with 2 to 8 chunks, and 3.8 to 4.6 with 9 to 16. 4 is taken for all. Each number of chunks is
    compiled by itself; after the eighth, PyTorch computes further ones eagerly, which needs more.

    Source: verl ``utils/torch_functional.py`` (``entropy_from_logits_with_chunking``); torch
    ``_inductor`` (code of 2.13), ``_dynamo/config.py`` (``recompile_limit``).
    """
    logits = head.logits_dtype.bytes
    if head.compiled:
        gradients = ("logits", "cross_entropy_gradient", "entropy_gradient")
        if head.chunk_tokens is not None:
            return _tensors(logits, *gradients) + _tensors(_FLOAT32, "chunk_gradients")
        slices = ("slices",) if head.scaling is Scaling.IN_PLACE else ()
        return _tensors(logits, *gradients, *slices)
    if head.chunk_tokens is not None:
        return chunked_training_tensors(head, tokens)
    beside, own = _beside_entropy(head)
    gradient = ("entropy_gradient",) if own else ()
    return _tensors(logits, *beside, *gradient) + _tensors(_FLOAT32, "softmax", "logsumexp_copy", *_WORKING)


def chunked_training_tensors(head: OutputHead, tokens: int) -> Tensors:
    r"""Peak of both passes with an eager entropy in chunks: the largest of these moments.

    The backward pass takes the chunks from the last one, of :math:`T_l` tokens, to the first.

    * The last chunk's backward pass: softmax and float32 logits of all chunks are saved, :math:`8`, and the
      working tensors take :math:`20 \, T_l / T`. Beside it is the gradient of cross entropy, :math:`b`;
      scaled in place it is the logits; checkpointed, but not scaled in place, both.
    * Its end, where the gradient of cross entropy came first: that of a slice, as large as all logits, is
      added to it in a third tensor, :math:`3 b + 8 \, (1 - T_l / T)`. verl reshapes the logits before cross
      entropy, so that its gradient is a view, and autograd changes no tensor in place that has another
      holder; the sum has none, and takes the next ones in place.
    * The backward pass of the chunk before: the gradient so far, :math:`b`, or :math:`b` more where the
      entropy's is a tensor of its own, scaled in place or checkpointed; of what is saved
      :math:`8 \, T_l / T` less, and the working tensors of a full chunk, :math:`20 \, T_c / T`.
    * That chunk's end, where the entropy's gradient is a tensor of its own: in place of the working tensors
      the gradient of a slice, :math:`b + b \, T_c / T`, and again :math:`8 \, T_c / T` less.

    What the forward pass holds at its end, and the backward pass when it begins, is less than these.

    Source: verl ``utils/torch_functional.py`` (``entropy_from_logits_with_chunking``,
    ``logprobs_from_logits``); torch ``autograd/FunctionsManual.cpp`` (``logsumexp_backward``),
    ``autograd/input_buffer.cpp`` (``can_accumulate_inplace``).
    """
    logits, chunk = head.logits_dtype.bytes, entropy_chunk(head, tokens)
    beside, own = _beside_entropy(head)
    held = _tensors(logits, *beside, *(("entropy_gradient",) if own else ()))
    saved, working = ("softmax", "float32_logits"), (*_WORKING, "product_gradient")
    moments = [
        _tensors(logits, *beside) + _tensors(_FLOAT32, *saved) + _tensors(_FLOAT32, *working, span=Span.LAST)
    ]
    if chunk < tokens:
        left = _tensors(_FLOAT32, *saved, span=Span.BEFORE_LAST)
        moments.append(held + left + _tensors(_FLOAT32, *working, span=Span.CHUNK))
        if own:
            ending = _tensors(logits, "slice_gradient") + _tensors(logits, "chunk_gradient", span=Span.CHUNK)
            moments.append(held + _tensors(_FLOAT32, *saved, span=Span.BEFORE_LAST_TWO) + ending)
        else:
            moments.append(held + _tensors(logits, "slice_gradient", "sum_of_gradients") + left)
    return max(moments, key=lambda tensors: bytes_per_column(tensors, tokens, chunk))


def bytes_per_column(tensors: Tensors, tokens: int, chunk: int) -> int:
    """Bytes of all these tensors for one vocabulary entry."""
    return sum(tensor.bytes_per_column(tokens, chunk) for tensor in tensors)


def _larger(first: Tensors, second: Tensors, tokens: int, chunk: int) -> Tensors:
    """The set that takes more; the first of equals."""
    return max((first, second), key=lambda tensors: bytes_per_column(tensors, tokens, chunk))


def logit_tensors(head: OutputHead, *, tokens: int, entropy: bool, training: bool) -> Tensors:
    r"""The tensors at the peak of a head whose logits exist.

    .. math:: V \sum_i \beta_i \, T_i

    :math:`\beta_i` bytes per logit of a tensor and :math:`T_i` the tokens it has a row for: those of
    :func:`forward_tensors`, or in training those of the backward pass where they take more.

    Source: verl ``utils/torch_functional.py`` (``logprobs_from_logits``, ``entropy_from_logits``).
    """
    forward = forward_tensors(head, entropy=entropy)
    if not training:
        return forward
    backward = entropy_training_tensors(head, tokens) if entropy else log_prob_training_tensors(head)
    return _larger(backward, forward, tokens, entropy_chunk(head, tokens))


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
    if head.kind is HeadKind.VALUE:
        return value_head_bytes(head, tokens=tokens, vocab=vocab, training=training)
    if head.kind is not HeadKind.LOGITS:
        fused = fused_training_bytes if training else fused_forward_bytes
        return fused(head, tokens=tokens, vocab=vocab, hidden=hidden)
    tensors = logit_tensors(head, tokens=tokens, entropy=entropy, training=training)
    return vocab * bytes_per_column(tensors, tokens, entropy_chunk(head, tokens))


def copies_bytes(head: OutputHead, *, copies: int, tokens: int, vocab: int) -> int:
    r"""What a model makes of its logits before it returns them.

    .. math:: n_c \, b \, T V

    :math:`n_c` tensors beside the logits. Scaled logits (Cohere, Granite): one while they are made, and
    one gradient. Soft-capped logits (Gemma 2): one more, the hyperbolic tangent, which is saved.

    Source: transformers ``CohereForCausalLM``, ``GraniteForCausalLM``, ``Gemma2ForCausalLM``.
    """
    return copies * head.logits_dtype.bytes * tokens * vocab


def published_rule_bytes(*, tokens: int, vocab: int) -> int:
    r"""The published rule of thumb, for comparison: :math:`(4 + 2 + 1) \, T V`.

    Source: verl's performance tuning guide. No code path allocates these three tensors.
    """
    return 7 * tokens * vocab
