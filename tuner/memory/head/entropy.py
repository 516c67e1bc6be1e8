"""The backward pass of a head with entropy: which tensors exist at its peak.

:math:`b` are bytes of the logits' dtype (2 for bfloat16), :math:`T` the tokens, :math:`T_c` those of one
chunk.
"""

from tuner.dtypes import DType
from tuner.memory.head.tensors import Tensors, TokenSpan, entropy_chunk, largest_set, logit_sized
from tuner.workload import OutputHead, Scaling

_FLOAT32 = DType.FLOAT32.bytes

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
    r"""Tensors at the peak of the head's passes with entropy.

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
            return logit_sized(logits, *gradients) + logit_sized(_FLOAT32, "chunk_gradients")
        slices = ("slices",) if head.scaling is Scaling.IN_PLACE else ()
        return logit_sized(logits, *gradients, *slices)
    if head.chunk_tokens is not None:
        return chunked_training_tensors(head, tokens)
    other_tensors, own_gradient = _beside_entropy(head)
    gradient = ("entropy_gradient",) if own_gradient else ()
    return logit_sized(logits, *other_tensors, *gradient) + logit_sized(
        _FLOAT32, "softmax", "logsumexp_copy", *_WORKING
    )


def chunked_training_tensors(head: OutputHead, tokens: int) -> Tensors:
    r"""Tensors at the peak of the head's passes with an eager entropy in chunks: at the largest moment.

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
    other_tensors, own_gradient = _beside_entropy(head)
    gradients = logit_sized(logits, *other_tensors, *(("entropy_gradient",) if own_gradient else ()))
    saved, working = ("softmax", "float32_logits"), (*_WORKING, "product_gradient")
    moments = [
        logit_sized(logits, *other_tensors)
        + logit_sized(_FLOAT32, *saved)
        + logit_sized(_FLOAT32, *working, span=TokenSpan.LAST)
    ]
    if chunk < tokens:
        left = logit_sized(_FLOAT32, *saved, span=TokenSpan.BEFORE_LAST)
        moments.append(gradients + left + logit_sized(_FLOAT32, *working, span=TokenSpan.CHUNK))
        if own_gradient:
            ending = logit_sized(logits, "slice_gradient") + logit_sized(
                logits, "chunk_gradient", span=TokenSpan.CHUNK
            )
            moments.append(gradients + logit_sized(_FLOAT32, *saved, span=TokenSpan.BEFORE_LAST_TWO) + ending)
        else:
            moments.append(gradients + logit_sized(logits, "slice_gradient", "sum_of_gradients") + left)
    return largest_set(*moments, tokens=tokens, chunk=chunk)
