"""The output head: logits, log-probabilities, entropy and their gradients.

What counts is bytes per logit, that is per token and vocabulary entry, the logits tensor itself
included, weights and their gradient not. :math:`b` are bytes of the logits' dtype (2 for bfloat16),
:math:`T` the tokens, :math:`T_c` those of one chunk. The figures are those of the tensors that the
released code allocates under autocast (softmax, logsumexp and sum run in float32), each by name.
"""

from tuner.dtypes import DType
from tuner.memory.head.entropy import entropy_training_tensors
from tuner.memory.head.tensors import Tensors, TokenSpan, entropy_chunk, largest_set, logit_sized
from tuner.workload import OutputHead, Scaling

_FLOAT32 = DType.FLOAT32.bytes


def forward_tensors(head: OutputHead, *, entropy: bool) -> Tensors:
    r"""Tensors of the logits' size that a forward pass through the head has at once.

    The logits as the model returns them, :math:`b`; twice that while a scaled copy is made. The
    entropy, compiled, adds nothing: one kernel reads the logits. Eager it adds softmax, the float32
    copy inside logsumexp, and the product of the two, :math:`3 \cdot 4`, of one chunk at a time:
    :math:`12 \, T_c / T`.

    A log-softmax of every column is as large as its float32 logits, :math:`4 + 4`; computed in chunks, all
    of them are kept and joined, :math:`4` more. Ranks that share the columns have the softmax beside it, and
    free a chunk's before the next.

    Source: NeMo-RL v0.7.0 ``models/automodel/train.py`` (``_compute_local_logprobs``),
    ``distributed/model_utils.py`` (``DistributedLogprob``, ``ChunkedDistributedLogprob``); verl
    ``utils/torch_functional.py``, ``entropy_from_logits`` and ``..._with_chunking``.
    """
    if head.float32_loss:
        return _float32_loss(head)
    if head.takes_columns:
        return logit_sized(_FLOAT32, "logits")
    if head.log_softmax and head.shares_columns:
        span = TokenSpan.ALL if head.chunk_tokens is None else TokenSpan.CHUNK
        summed = logit_sized(_FLOAT32, "shifted_logits", "exponentials", span=span)
        return (*logit_sized(_FLOAT32, "logits"), *summed)
    if head.log_softmax:
        joined = () if head.chunk_tokens is None else ("joined_log_softmax",)
        return logit_sized(_FLOAT32, "logits", "log_softmax", *joined)
    copies = ("scaled_logits",) if head.scaling is Scaling.COPY else ()
    logits = logit_sized(head.logits_dtype.bytes, "logits", *copies)
    if not entropy or head.compiled:
        return logits
    span = TokenSpan.ALL if head.chunk_tokens is None else TokenSpan.CHUNK
    return logits + logit_sized(_FLOAT32, "softmax", "logsumexp_copy", "product", span=span)


def _float32_loss(head: OutputHead, *gradients: str) -> Tensors:
    r"""The tensors around PyTorch's cross entropy under autocast.

    The logits, and their copy without the last of each sequence where there is one, :math:`b` each, stay in
    the variables of the function that calls the backward pass. Forward: the log-softmax in the dtype of the
    logits, :math:`b`, which cross entropy asks for by name so that autocast leaves it, and its copy in
    float32, :math:`4`, which autocast makes for the loss; both are saved. Backward: these, and the gradient
    of the loss with respect to the copy, :math:`4`. That of the logits comes once the copy is freed.

    Measured on an H200 with torch 2.11: 55.7 GiB of 32,768 rows of 151,936, 12 bytes per logit.

    Source: verl 0.4.1 to 0.7.0 ``trainer/fsdp_sft_trainer.py`` (``_compute_loss_and_backward``), torch
    ``aten/src/ATen/native/LossNLL.cpp`` (``cross_entropy_loss``),
    ``aten/src/ATen/autocast_mode.h`` (``log_softmax`` in float32 unless a dtype is named, ``nll_loss``).
    """
    shifted = ("shifted_logits",) if head.shifts_logits else ()
    own = logit_sized(head.logits_dtype.bytes, "logits", *shifted, "log_softmax")
    return own + logit_sized(_FLOAT32, "float32_log_softmax", *gradients)


def log_prob_training_tensors(head: OutputHead) -> Tensors:
    r"""Tensors at the peak of the head's backward pass without entropy.

    Flash-attention's cross entropy writes the gradient over the logits: :math:`b`. Dividing by
    the temperature into a copy adds that copy's gradient, :math:`2 b`; dividing in place makes
    autograd keep and copy slices, :math:`4 b`. Without that kernel, log-softmax is saved row by
    row and its gradient is a new tensor: :math:`3 b`. PyTorch's cross entropy over all rows takes
    :math:`2 b + 8`, and :math:`3 b + 8` where it is given a shifted copy of the logits.
    A log-softmax of every column in float32 is saved, the logits are gone; the gradient of the gathered ones
    is as large, and so is that of the logits: :math:`3 \cdot 4`.
    """
    if head.float32_loss:
        return _float32_loss(head, "loss_gradient")
    if head.takes_columns:
        return logit_sized(_FLOAT32, "logits", "logits_gradient")
    if head.log_softmax:
        return logit_sized(_FLOAT32, "log_softmax", "gathered_gradient", "logits_gradient")
    names: tuple[str, ...] = ("logits",)
    if head.scaling is Scaling.IN_PLACE:
        names = ("logits", "logits_gradient", "slices", "slice_gradients")
    elif not head.fused_cross_entropy:
        names = ("logits", "log_softmax", "logits_gradient")
    elif head.scaling is Scaling.COPY:
        names = ("logits", "scaled_gradient")
    return logit_sized(head.logits_dtype.bytes, *names)


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
    return largest_set(backward, forward, tokens=tokens, chunk=entropy_chunk(head, tokens))


def logits_bytes(*, T: int, V: int, logits: int) -> int:
    """The logits alone, while the projection makes them.

    Source: transformers ``LlamaForCausalLM``.
    """
    return T * V * logits


def copies_bytes(*, n_c: int, T: int, V: int, logits: int) -> int:
    """What a model makes of its logits before it returns them.

    :math:`n_c` tensors beside the logits. Scaled logits (Cohere, Granite): one while they are made, and
    one gradient. Soft-capped logits (Gemma 2): one more, the hyperbolic tangent, which is saved.

    Source: transformers ``CohereForCausalLM``, ``GraniteForCausalLM``, ``Gemma2ForCausalLM``.
    """
    return n_c * T * V * logits


def published_rule_bytes(*, tokens: int, vocab: int) -> int:
    r"""The published rule of thumb, for comparison: :math:`(4 + 2 + 1) \, T V`.

    Source: verl's performance tuning guide. No code path allocates these three tensors.
    """
    return 7 * tokens * vocab
