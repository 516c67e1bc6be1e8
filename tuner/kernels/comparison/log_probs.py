"""The log-probability of labels from logits that exist, as verl computes it.

T: rows (tokens). V: vocabulary entries.
"""

import torch
from torch import Tensor

from tuner.kernels.entropy import log_prob_and_entropy


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
