"""The output head: logits, log-probabilities, entropy and their gradients.

All figures are bytes per logit, that is per token and vocabulary entry, the logits tensor itself
included, weights and their gradient not. :math:`b` is the logits' dtype (2 for bfloat16). They
follow from the tensors that the released code allocates under autocast (softmax, logsumexp and
sum run in float32); the page on the output head lists them one by one.
"""

from math import ceil

from tuner.dtypes import DType
from tuner.workload import HeadKind, OutputHead, Scaling

FUSED_TORCH_CHUNK = 512  # tokens; fixed in verl's utils/experimental/torch_functional.py
TRITON_FORWARD_SPLIT = 1024  # vocabulary entries per program; utils/kernel/linear_cross_entropy.py
TRITON_BACKWARD_SPLIT = 9504  # vocabulary entries per slice of d_logits; the same file
_FLOAT32 = DType.FLOAT32.bytes


def logits_bytes_per_logit(head: OutputHead) -> int:
    """The logits as the model returns them: :math:`b`; twice that while a scaled copy is made."""
    return head.logits_dtype.bytes * (2 if head.scaling is Scaling.COPY else 1)


def entropy_forward_bytes_per_logit(head: OutputHead, tokens: int) -> float:
    r"""What computing the entropy adds in a forward pass.

    Compiled: nothing, one kernel reads the logits. Eager: softmax, the float32 copy inside
    logsumexp, and the product of the two, :math:`3 \cdot 4`. In chunks of :math:`c` of :math:`T`
    tokens: :math:`12 \, c / T`.

    Source: verl ``utils/torch_functional.py``, ``entropy_from_logits`` and ``..._with_chunking``.
    """
    if head.compiled:
        return 0.0
    if head.chunk_tokens is None:
        return 3.0 * _FLOAT32
    return 3.0 * _FLOAT32 * min(1.0, head.chunk_tokens / max(1, tokens))


def log_prob_training_bytes_per_logit(head: OutputHead) -> float:
    r"""Peak of the backward pass without entropy.

    Flash-attention's cross entropy writes the gradient over the logits: :math:`b`. Dividing by
    the temperature into a copy adds that copy's gradient, :math:`2 b`; dividing in place makes
    autograd keep and copy slices, :math:`4 b`. Without that kernel, log-softmax is saved row by
    row and its gradient is a new tensor: :math:`3 b`.
    """
    logits = head.logits_dtype.bytes
    if head.scaling is Scaling.IN_PLACE:
        return 4.0 * logits
    if not head.fused_cross_entropy:
        return 3.0 * logits
    return 2.0 * logits if head.scaling is Scaling.COPY else 1.0 * logits


def entropy_training_bytes_per_logit(head: OutputHead, tokens: int) -> float:
    r"""Peak of the backward pass with entropy.

    * compiled: logits and one gradient each from cross entropy and entropy, :math:`3 b`;
    * compiled in chunks: the chunks' float32 gradients are kept until they are joined,
      :math:`3 b + 4`;
    * eager: logits, both gradients, softmax, logsumexp's copy, the gradient of softmax, and two
      float32 temporaries, :math:`3 b + 20`;
    * eager in chunks: softmax and float32 logits of all chunks are saved,
      :math:`\max(2 b + 8 + 12 c / T,\; 3 b + 8 - 8 c / T)`;
    * checkpointed: the recomputed graph exists beside the gradient of its detached input,
      :math:`2 b` more, or :math:`b` in chunks; no gain at the peak.

    In-place temperature scaling adds :math:`b`.
    """
    logits = float(head.logits_dtype.bytes)
    extra = logits if head.scaling is Scaling.IN_PLACE else 0.0
    if head.compiled:
        return extra + 3 * logits + (0.0 if head.chunk_tokens is None else _FLOAT32)
    if head.chunk_tokens is None:
        return extra + 3 * logits + 5.0 * _FLOAT32 + (2 * logits if head.checkpointed else 0.0)
    share = min(1.0, head.chunk_tokens / max(1, tokens))
    saved = 2.0 * _FLOAT32
    chunked = max(2 * logits + saved + 3 * _FLOAT32 * share, 3 * logits + saved * (1 - share))
    return extra + chunked + (logits if head.checkpointed else 0.0)


def fused_forward_bytes(head: OutputHead, *, tokens: int, vocab: int, hidden: int) -> int:
    r"""Scratch of a fused head's forward pass.

    torch: float32 logits, softmax and product of one chunk, :math:`12 \cdot 512 \, V`.
    Triton: three float32 statistics per token and vocabulary split, :math:`12 \, T V / 1024`.
    Liger: one chunk of logits in both dtypes, chunks sized so that a chunk's logits are as large
    as the hidden states.
    """
    if head.kind is HeadKind.FUSED_TRITON:
        return 3 * _FLOAT32 * tokens * ceil(vocab / TRITON_FORWARD_SPLIT)
    if head.kind is HeadKind.FUSED_LIGER:
        chunk = ceil(tokens / max(1, ceil(vocab / hidden)))
        return (head.logits_dtype.bytes + _FLOAT32) * chunk * vocab
    return 3 * _FLOAT32 * min(FUSED_TORCH_CHUNK, tokens) * vocab


def fused_training_bytes(head: OutputHead, *, tokens: int, vocab: int, hidden: int) -> int:
    r"""Scratch of a fused head's backward pass.

    torch: logits, softmax, one-hot, log-softmax and gradients of one chunk in float32,
    :math:`28 \cdot 512 \, V`, and a second copy of the weight gradient, :math:`2 V H`.
    Triton: one slice of the logits' gradient, :math:`2 \, T \cdot 9504`.
    """
    if head.kind is HeadKind.FUSED_TRITON:
        return head.logits_dtype.bytes * tokens * min(TRITON_BACKWARD_SPLIT, vocab)
    if head.kind is HeadKind.FUSED_LIGER:
        return fused_forward_bytes(head, tokens=tokens, vocab=vocab, hidden=hidden)
    chunk = min(FUSED_TORCH_CHUNK, tokens)
    return 7 * _FLOAT32 * chunk * vocab + head.logits_dtype.bytes * vocab * hidden


def value_head_bytes(tokens: int, *, training: bool) -> int:
    """A critic's single column in float32, and its gradient."""
    return tokens * _FLOAT32 * (2 if training else 1)


def head_peak_bytes(
    head: OutputHead, *, tokens: int, vocab: int, hidden: int, entropy: bool, training: bool
) -> int:
    """Peak of one pass through the head, weights and hidden states not counted.

    Args:
        head: how it is computed.
        tokens: tokens of the micro-batch on this GPU.
        vocab: vocabulary entries on this GPU.
        hidden: hidden width.
        entropy: whether this pass computes the entropy (a fused head always does).
        training: True for forward and backward, False for forward only.
    """
    if head.kind is HeadKind.VALUE:
        return value_head_bytes(tokens, training=training)
    if head.kind is not HeadKind.LOGITS:
        fused = fused_training_bytes if training else fused_forward_bytes
        return fused(head, tokens=tokens, vocab=vocab, hidden=hidden)
    forward = logits_bytes_per_logit(head) + (
        entropy_forward_bytes_per_logit(head, tokens) if entropy else 0.0
    )
    if not training:
        return ceil(forward * tokens * vocab)
    backward = (
        entropy_training_bytes_per_logit(head, tokens) if entropy else log_prob_training_bytes_per_logit(head)
    )
    return ceil(max(forward, backward) * tokens * vocab)


def published_rule_bytes(*, tokens: int, vocab: int) -> int:
    r"""The published rule of thumb, for comparison: :math:`(4 + 2 + 1) \, T V`.

    Source: verl's performance tuning guide. No code path allocates these three tensors.
    """
    return 7 * tokens * vocab


def megatron_head_bytes(
    head: OutputHead, *, tokens: int, vocab: int, tensor_parallel: int, entropy: bool
) -> int:
    r"""Megatron's vocabulary-parallel head: :math:`V / T_p` columns, logits upcast to float32.

    Without entropy the bfloat16 logits and their float32 copy, :math:`6`; with it a clone and the
    saved softmax, :math:`14`, of which the softmax shrinks to :math:`4 \, c / T` in chunks. The
    backward pass works in place, so both directions cost the same.

    Source: verl ``engine/megatron/transformer_impl.py``, ``utils/megatron/tensor_parallel.py``;
    read from the code, not measured.
    """
    per_logit = float(DType.BFLOAT16.bytes + _FLOAT32)
    if entropy:
        share = 1.0 if head.chunk_tokens is None else min(1.0, head.chunk_tokens / max(1, tokens))
        per_logit += _FLOAT32 * (1 + share)
    return ceil(tokens * ceil(vocab / tensor_parallel) * per_logit)
