"""A head over padded sequences that is given the logits of responses alone.

The model makes logits of all :math:`T` tokens, :math:`b` bytes each. They are divided by the temperature in
place, and log-probabilities and entropy are computed from a slice with those of the :math:`T_r` tokens of
responses, by the plain function: neither compiled nor in chunks.
"""

from tuner.dtypes import DType
from tuner.memory.batch.padded_response import PaddedResponse
from tuner.memory.head.tensors import Tensors, TokenSpan, largest_set, logit_sized
from tuner.workload import OutputHead

_FLOAT32 = DType.FLOAT32.bytes


def response_forward_tensors(head: OutputHead, *, entropy: bool, copied: bool) -> Tensors:
    r"""Tensors that a forward pass through the head has at once.

    The logits, :math:`b \, T`. Beside them is the copy of the slice that cross entropy is given,
    :math:`b \, T_r`; a single sequence needs none. The entropy follows when that is gone: softmax,
    logsumexp's copy and its exponential, :math:`12 \, T_r`.

    Source: verl 0.3.0.post1 ``workers/actor/dp_actor.py:153-157``, 0.7.1 lines 366-375;
    ``utils/torch_functional.py`` (``logprobs_from_logits``: ``reshape``).
    """
    logits = logit_sized(head.logits_dtype.bytes, "logits")
    if entropy:
        return logits + _of_responses(_FLOAT32, "softmax", "logsumexp_copy", "product")
    return logits + (_of_responses(head.logits_dtype.bytes, "response_logits") if copied else ())


def response_training_tensors(
    head: OutputHead, response: PaddedResponse, *, entropy: bool, tokens: int
) -> Tensors:
    r"""Tensors at the peak of the head's passes with gradients: at the largest moment.

    * The end of the backward pass, whether there is an entropy or not: the gradient of the slice in one of
      all tokens, and that divided by the temperature, :math:`2 b \, T`.
    * The entropy's backward pass at logsumexp, which comes first: softmax and its gradient, logsumexp's copy,
      difference, exponential and gradient, :math:`24 \, T_r`, the entropy's own gradient, :math:`b \, T_r`,
      and what cross entropy holds: the copy of the slice, :math:`b \, T_r`, or the logits of a single
      sequence, :math:`b \, T`. A checkpoint holds the logits beside the copy.
    * Its beginning, where the product still holds the logits: :math:`b \, T`, the copy, softmax and
      logsumexp's copy, and the product's two gradients, one of which is cast, :math:`(2 b + 16) \, T_r`.

    The forward pass, of which log-probabilities leave the copy behind, is less than these.

    Source: verl 0.3.0.post1 ``workers/actor/dp_actor.py:153-157``, 0.7.1 lines 366-375; torch
    ``autograd/FunctionsManual.cpp`` (``logsumexp_backward``, ``slice_backward``).
    """
    own = head.logits_dtype.bytes
    logits = logit_sized(own, "logits")
    copy = _of_responses(own, "response_logits") if response.is_copied(tokens) else ()
    ending = logit_sized(own, "logits_gradient", "divided_gradient")
    if not entropy:
        return ending
    holds_logits = head.checkpointed or not copy
    saved = _of_responses(_FLOAT32, "softmax", "logsumexp_copy")
    beginning = logits + copy + saved + _of_responses(_FLOAT32, "softmax_gradient", "product_gradient")
    at_logsumexp = (
        (logits if holds_logits else ())
        + copy
        + _of_responses(own, "entropy_gradient")
        + saved
        + _of_responses(_FLOAT32, "softmax_gradient", "difference", "exponential", "logsumexp_gradient")
    )
    moments = (ending, at_logsumexp, beginning + _of_responses(own, "cast_gradient"))
    return largest_set(*moments, tokens=tokens, chunk=tokens, response=response.rows(tokens))


def response_tensors(
    head: OutputHead, response: PaddedResponse, *, entropy: bool, tokens: int, training: bool
) -> Tensors:
    """The tensors at the peak of a head over the logits of responses.

    Source: verl 0.3.0.post1 to 0.7.1 ``workers/actor/dp_actor.py`` (``_forward_micro_batch``).
    """
    if training:
        return response_training_tensors(head, response, entropy=entropy, tokens=tokens)
    return response_forward_tensors(head, entropy=entropy, copied=response.is_copied(tokens))


def _of_responses(bytes_per_logit: int, *names: str) -> Tensors:
    return logit_sized(bytes_per_logit, *names, span=TokenSpan.RESPONSE)
