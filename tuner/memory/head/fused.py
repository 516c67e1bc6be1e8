"""Fused output heads, whose logits never exist as a whole.

Each takes the tokens, or the vocabulary, piece by piece. :math:`b` are bytes of the logits' dtype,
:math:`T` the tokens, :math:`V` vocabulary entries, :math:`H` the hidden width.
"""

from tuner.memory.ledger.formula import ceil_div, largest, smallest
from tuner.memory.ledger.stated_terms import Size
from tuner.units import MIB
from tuner.workload import HeadKind, OutputHead

SYMBOLS = {
    "b": "bytes of a number in the dtype of the logits",
    "T_f": "tokens of a chunk of the head written in torch",
}

TRITON_FORWARD_SPLIT = 1024  # vocabulary entries per program; utils/kernel/linear_cross_entropy.py
TRITON_BACKWARD_SPLIT = 9504  # vocabulary entries per slice of d_logits; the same file
TUNER_SLICE_BYTES = 304 * MIB  # of a slice of d_logits that lies in a buffer of its own; kernels/slices.py


def torch_forward_bytes(*, T: int, V: int, T_f: int) -> int:
    """The head written in torch, forward: float32 logits, softmax and product of one chunk of tokens.

    Source: verl ``utils/experimental/torch_functional.py`` (``FusedLinearForPPO``).
    """
    return 12 * smallest(T_f, T) * V


def torch_chunk_backward_bytes(*, T: int, V: int, H: int, b: int) -> int:
    """The head written in torch, backward, where all tokens are one chunk.

    Logits, softmax, one-hot, log-softmax, their gradient and two products in float32, 28 bytes per logit;
    then four of these and the gradient in the logits' dtype, beside the gradients of weight and hidden
    states.

    Source: verl ``utils/experimental/torch_functional.py`` (``FusedLinearForPPOFunction``).
    """
    return largest(28 * T * V, (16 + b) * T * V + b * (V + T) * H)


def torch_chunks_backward_bytes(*, V: int, H: int, b: int, T_f: int) -> int:
    """The head written in torch, backward in chunks: the gradients of the chunk before exist as long.

    Source: verl ``utils/experimental/torch_functional.py`` (``FusedLinearForPPOFunction``).
    """
    gradients = b * (V + T_f) * H
    return gradients + largest(28 * T_f * V, (16 + b) * T_f * V + gradients)


def triton_forward_bytes(*, T: int, V: int) -> int:
    """The Triton head, forward: three float32 statistics per token and part of the vocabulary.

    Source: verl ``utils/kernel/kernels.py``, ``utils/kernel/linear_cross_entropy.py``.
    """
    return 12 * T * ceil_div(V, TRITON_FORWARD_SPLIT)


def triton_backward_bytes(*, T: int, V: int, H: int, b: int) -> int:
    """The Triton head, backward: a slice of the logits' gradient, and what is made of it beside it.

    That is each slice's share of the gradient of the hidden states, and a copy of the last slice where the
    vocabulary is no multiple of a slice. The slice has its full width for a smaller vocabulary too.

    Source: verl ``utils/kernel/kernels.py`` (``efficient_entropy_backward``, ``_Split_Dlogits_N``).
    """
    last = V - TRITON_BACKWARD_SPLIT * (V // TRITON_BACKWARD_SPLIT)
    return b * T * (TRITON_BACKWARD_SPLIT + largest(last, H))


def tuner_backward_bytes(*, T: int, V: int, H: int, b: int) -> int:
    """The head of ``tuner.inside_verl``, backward: a slice of the logits' gradient, and a sum.

    Slices lie in the part of the weight's gradient that is not written yet, and the last ones in a buffer
    of their own. The gradient of the hidden states is summed up in float32, and cast in the end.

    Source: ``tuner/kernels/slices.py``, ``tuner/kernels/backward.py``.
    """
    return largest(smallest(TUNER_SLICE_BYTES, b * T * V) + (4 - b) * T * H, 4 * T * H)


def liger_bytes(*, T: int, V: int, H: int, b: int) -> int:
    """Liger's head, forward and backward: one chunk of logits in their own dtype and in float32.

    Chunks are as many as the vocabulary is wider than the hidden states, so that a chunk's logits are as
    large as the hidden states.

    Source: Liger ``ops/fused_linear_cross_entropy.py``.
    """
    return (b + 4) * ceil_div(T, ceil_div(V, H)) * V


def fused_head_size(head: OutputHead, *, tokens: int, training: bool) -> Size:
    """What sizes the scratch of a fused head."""
    if head.kind is HeadKind.FUSED_LIGER:
        return liger_bytes
    if head.kind is HeadKind.FUSED_TUNER:
        return tuner_backward_bytes if training else triton_forward_bytes
    if head.kind is HeadKind.FUSED_TRITON:
        return triton_backward_bytes if training else triton_forward_bytes
    if not training:
        return torch_forward_bytes
    return torch_chunks_backward_bytes if tokens > head.fused_chunk_tokens else torch_chunk_backward_bytes
