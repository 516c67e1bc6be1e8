"""Output heads whose logits never exist as a whole: fused ones, and a critic's single column.

Heads with logits are counted by ``tuner.memory.head.logits``.
"""

from math import ceil

from tuner.dtypes import DType
from tuner.workload import HeadKind, OutputHead

FUSED_TORCH_CHUNK = 512  # tokens; fixed in verl's utils/experimental/torch_functional.py
TRITON_FORWARD_SPLIT = 1024  # vocabulary entries per program; utils/kernel/linear_cross_entropy.py
TRITON_BACKWARD_SPLIT = 9504  # vocabulary entries per slice of d_logits; the same file
_FLOAT32 = DType.FLOAT32.bytes


def fused_forward_bytes(head: OutputHead, *, tokens: int, vocab: int, hidden: int) -> int:
    r"""Scratch of a fused head's forward pass.

    torch: float32 logits, softmax and product of one chunk, :math:`12 \cdot 512 \, V`.
    Triton: three float32 statistics per token and vocabulary split, :math:`12 \, T V / 1024`.
    Liger: one chunk of logits in both dtypes, chunks sized so that a chunk's logits are as large
    as the hidden states.

    Source: verl ``utils/experimental/torch_functional.py`` (``FusedLinearForPPO``),
    ``utils/kernel/kernels.py``; Liger ``ops/fused_linear_cross_entropy.py``.
    """
    if head.kind is HeadKind.FUSED_TRITON:
        return 3 * _FLOAT32 * tokens * ceil(vocab / TRITON_FORWARD_SPLIT)
    if head.kind is HeadKind.FUSED_LIGER:
        chunk = ceil(tokens / max(1, ceil(vocab / hidden)))
        return (head.logits_dtype.bytes + _FLOAT32) * chunk * vocab
    return 3 * _FLOAT32 * min(FUSED_TORCH_CHUNK, tokens) * vocab


def fused_training_bytes(head: OutputHead, *, tokens: int, vocab: int, hidden: int) -> int:
    r"""Scratch of a fused head's backward pass.

    torch: logits, softmax, one-hot, log-softmax, their gradient and two products of one chunk in float32,
    :math:`28 \cdot 512 \, V`, then four of these and the gradient in the logits' dtype, :math:`18 \cdot 512
    \, V`, beside the gradients of weight and hidden states of this chunk, :math:`b (V + 512) H`. Those of the
    chunk before exist as long.
    Triton: one slice of the logits' gradient, :math:`2 \, T \cdot 9504`.

    Source: verl ``utils/experimental/torch_functional.py`` (``FusedLinearForPPOFunction``),
    ``utils/kernel/kernels.py``; Liger ``ops/fused_linear_cross_entropy.py``.
    """
    if head.kind is HeadKind.FUSED_TRITON:
        return head.logits_dtype.bytes * tokens * min(TRITON_BACKWARD_SPLIT, vocab)
    if head.kind is HeadKind.FUSED_LIGER:
        return fused_forward_bytes(head, tokens=tokens, vocab=vocab, hidden=hidden)
    chunk, logits = min(FUSED_TORCH_CHUNK, tokens), head.logits_dtype.bytes
    gradients = logits * (vocab + chunk) * hidden
    before = gradients if tokens > chunk else 0
    ending = (4 * _FLOAT32 + logits) * chunk * vocab + gradients
    return before + max(7 * _FLOAT32 * chunk * vocab, ending)


def value_head_bytes(head: OutputHead, *, tokens: int, vocab: int, training: bool) -> int:
    r"""A critic's single column in float32, :math:`4 T`, and in training its gradient, :math:`8 T`.

    Where trl wraps a language model, the forward pass makes its logits too, and a float32 copy of
    them that nothing reads, :math:`(b + 4) \, T V`.

    Source: verl ``workers/engine/fsdp/transformer_impl.py`` (``FSDPEngineWithValueHead``),
    ``utils/model.py`` (``load_valuehead_model``); trl ``models/modeling_value_head.py``.
    """
    if training:
        return tokens * 2 * _FLOAT32
    column = tokens * _FLOAT32
    return column + (head.logits_dtype.bytes + _FLOAT32) * tokens * vocab if vocab else column
