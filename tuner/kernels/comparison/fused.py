r"""Log-probability and entropy in chunks of tokens, with a backward pass of its own: verl's fused torch head.

T: rows (tokens). V: vocabulary entries. H: hidden size. C: rows of a chunk.

Nothing of a chunk is kept. With :math:`y = x / \tau` in the dtype of the hidden states and
:math:`p = \mathrm{softmax}(y)` in float32, the backward pass computes them again and

.. math:: \frac{\partial L}{\partial x_v} = \frac{1}{\tau} \left(
    g_p ([v = l] - p_v) - g_H \, p_v (\ln p_v + \mathcal{H}) \right)

Source: the algorithm of ``FusedLinearForPPO`` in verl ``utils/experimental/torch_functional.py``.
"""

from typing import Any

import torch
from torch import Tensor

from tuner.kernels.comparison.from_logits import by_kernel

CHUNK_TOKENS = 512  # verl's, the same in all releases


def _logits(hidden_CH: Tensor, weight_VH: Tensor, temperature: float) -> Tensor:
    return ((hidden_CH @ weight_VH.T) / temperature).float()


def _entropy(logits_CV: Tensor, p_CV: Tensor) -> Tensor:
    return logits_CV.logsumexp(-1) - (p_CV * logits_CV).sum(-1)


def _chunk_outputs(
    hidden_CH: Tensor, weight_VH: Tensor, labels_C: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    logits_CV = _logits(hidden_CH, weight_VH, temperature)
    entropy_C = _entropy(logits_CV, logits_CV.softmax(-1))
    return by_kernel(logits_CV, labels_C), entropy_C


def _chunk_gradients(
    hidden_CH: Tensor,
    weight_VH: Tensor,
    labels_C: Tensor,
    temperature: float,
    upstream: tuple[Tensor | None, Tensor | None],
) -> tuple[Tensor, Tensor]:
    """Gradients of hidden states and weight; what the logits' is made from exists to the end, as in verl."""
    d_log_prob_C, d_entropy_C = upstream
    logits_CV = _logits(hidden_CH, weight_VH, temperature)
    p_CV = logits_CV.softmax(-1)
    d_logits_CV: Any = 0
    if d_log_prob_C is not None:
        label_CV = torch.zeros_like(logits_CV).scatter_(-1, labels_C[:, None], 1)
        d_logits_CV = d_logits_CV + d_log_prob_C.float()[:, None] * (label_CV - p_CV)
    if d_entropy_C is not None:
        log_p_CV = logits_CV.log_softmax(-1)
        entropy_C = _entropy(logits_CV, p_CV)
        d_logits_CV += p_CV * (log_p_CV + entropy_C[:, None]) * -d_entropy_C[:, None]
    d_logits_CV = d_logits_CV.to(hidden_CH.dtype) / temperature
    return d_logits_CV @ weight_VH, d_logits_CV.T @ hidden_CH


class _InChunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TH: Tensor, weight_VH: Tensor, labels_T: Tensor, temperature: float
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(hidden_TH, weight_VH, labels_T)
        ctx.temperature = temperature
        log_probs_T = hidden_TH.new_zeros(labels_T.shape, dtype=torch.float32)
        entropy_T = hidden_TH.new_zeros(labels_T.shape)
        for start in range(0, len(labels_T), CHUNK_TOKENS):
            part = slice(start, start + CHUNK_TOKENS)
            log_probs_T[part], entropy_T[part] = _chunk_outputs(
                hidden_TH[part], weight_VH, labels_T[part], temperature
            )
        return log_probs_T, entropy_T

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None, None]:
        hidden_TH, weight_VH, labels_T = ctx.saved_tensors
        of_hidden, of_weight = ctx.needs_input_grad[:2]
        d_hidden_TH = torch.zeros_like(hidden_TH) if of_hidden else None
        d_weight_VH = torch.zeros_like(weight_VH) if of_weight else None
        for start in range(0, len(labels_T), CHUNK_TOKENS):
            part = slice(start, start + CHUNK_TOKENS)
            upstream = tuple(None if of is None else of[part] for of in gradients)
            # The last chunk's two exist until these do, as in verl.
            d_hidden_CH, d_more_VH = _chunk_gradients(
                hidden_TH[part], weight_VH, labels_T[part], ctx.temperature, (upstream[0], upstream[1])
            )
            if d_hidden_TH is not None:
                d_hidden_TH[part] += d_hidden_CH
            if d_weight_VH is not None:
                d_weight_VH += d_more_VH
        return d_hidden_TH, d_weight_VH, None, None


def fused_in_torch(
    hidden_TH: Tensor, weight_VH: Tensor, labels_T: Tensor, temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Log-probabilities, float32, and entropy, rounded to the dtype of the hidden states.

    Up to 0.7.1 verl rounds the log-probabilities as well. The gradient of the weight is added up in the
    weight's dtype.
    """
    outputs: tuple[Tensor, Tensor] = _InChunks.apply(hidden_TH, weight_VH, labels_T, temperature)
    return outputs
