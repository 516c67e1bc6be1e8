"""The log-probability of labels and the entropy from logits that exist, as verl computes them.

T: rows (tokens). V: vocabulary entries.

T: rows (tokens). V: vocabulary entries. C: rows of a chunk.

verl runs under autocast, which has softmax, logsumexp and sum take and give float32 on a GPU. The casts are
written out here: the same tensors come into being without it, and on a CPU.
"""

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tuner.kernels.entropy import log_prob_and_entropy

Entropy = Callable[[Tensor], Tensor]


def by_kernel(logits_TV: Tensor, labels_T: Tensor) -> Tensor:
    """Log-probabilities by one pass over the logits and one that writes their gradient, float32.

    verl takes flash-attn's cross entropy where it is installed. Its place is taken by this package's kernel,
    which reads and writes the same tensors.

    Source: verl ``utils/torch_functional.py`` (``logprobs_from_logits``).
    """
    return log_prob_and_entropy(logits_TV, labels_T)[0]


def row_by_row(logits_TV: Tensor, labels_T: Tensor) -> Tensor:
    """What verl falls back to without flash-attn: a log-softmax of each row by itself, float32.

    Source: verl ``utils/torch_functional.py`` (``logprobs_from_logits_v2``, 16-bit logits), under autocast.
    """
    rows = zip(logits_TV.unbind(), labels_T.unbind(), strict=True)
    return torch.stack([row.log_softmax(-1, dtype=torch.float32)[label] for row, label in rows])


def entropy_of_all_rows(logits_TV: Tensor) -> Tensor:
    r"""Entropy of each row, computed for all rows at once, float32.

    .. math:: \mathcal{H} = \ln \sum_v e^{x_v} - \sum_v p_v x_v

    Source: verl ``utils/torch_functional.py`` (``entropy_from_logits``), the same in 0.4.1 to 0.9.1.
    """
    p_TV = logits_TV.softmax(-1, dtype=torch.float32)
    return logits_TV.float().logsumexp(-1) - (p_TV * logits_TV).sum(-1)


def in_chunks(logits_TV: Tensor, rows: int) -> Tensor:
    """Entropy of each row, computed for ``rows`` rows at a time, each chunk in a float32 copy.

    Source: verl ``utils/torch_functional.py`` (``entropy_from_logits_with_chunking``), the same in 0.4.1 to
    0.9.1.
    """
    entropy_T = torch.zeros(logits_TV.shape[0], device=logits_TV.device)
    for start in range(0, logits_TV.shape[0], rows):
        part = slice(start, start + rows)
        wide_CV = logits_TV[part].float()
        p_CV = wide_CV.softmax(-1)
        entropy_T[part] = wide_CV.logsumexp(-1) - (p_CV * wide_CV).sum(-1)
    return entropy_T


@cache
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(function, dynamic=True)


def entropy_function(*, compiled: bool, chunk_tokens: int | None, checkpointed: bool) -> Entropy:
    """The function for the entropy that these settings of :class:`tuner.workload.OutputHead` choose.

    Checkpointing is torch's reentrant one, verl's choice by leaving it to torch: a backward pass has to be
    that of ``Tensor.backward``, not ``torch.autograd.grad``.
    """
    plain: Callable[..., Tensor] = entropy_of_all_rows if chunk_tokens is None else in_chunks
    computed = _compiled(plain) if compiled else plain
    entropy = computed if chunk_tokens is None else partial(computed, rows=chunk_tokens)
    if not checkpointed:
        return entropy

    def recomputed(logits_TV: Tensor) -> Tensor:
        if not (torch.is_grad_enabled() and logits_TV.requires_grad):
            return entropy(logits_TV)  # all that torch does then, but for a warning
        entropy_T: Tensor = checkpoint(entropy, logits_TV, use_reentrant=True)
        return entropy_T

    return recomputed
