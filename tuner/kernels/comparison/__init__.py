"""How verl computes log-probability and entropy, as functions called like this package's own.

They are what ours is measured against, and what the memory model's prices of the output head are checked by.

T: rows (tokens). V: vocabulary entries. H: hidden size.
"""

from functools import partial
from types import MappingProxyType
from typing import Protocol

from torch import Tensor
from torch.nn import functional

from tuner.kernels.comparison.from_logits import by_kernel, entropy_function, row_by_row
from tuner.kernels.comparison.fused import fused_in_torch
from tuner.workload import HeadKind, OutputHead, Scaling
from tuner.workload.head import COMPARED_HEADS

__all__ = ["HEADS", "IMPLEMENTATIONS", "Implementation", "verl_log_prob_and_entropy"]

LOWEST_TEMPERATURE = 1e-8  # of a tensor's; verl clamps it


class Implementation(Protocol):
    """Log-probabilities and entropy from ``[..., H]``, ``[V, H]`` and ``[...]``."""

    def __call__(
        self, hidden: Tensor, weight: Tensor, labels: Tensor, temperature: float | Tensor = 1.0
    ) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy as :func:`verl_log_prob_and_entropy` returns them."""


def _divide_in_place(logits_TV: Tensor, temperature: float | Tensor) -> None:
    if isinstance(temperature, Tensor):
        temperature = _column(temperature, logits_TV)
    logits_TV.div_(temperature)


def _divided(logits_TV: Tensor, temperature: float | Tensor) -> Tensor:
    if not isinstance(temperature, Tensor):
        temperature = logits_TV.new_full((1,), temperature)
    return logits_TV / _column(temperature, logits_TV)


def _column(temperature: Tensor, logits_TV: Tensor) -> Tensor:
    return temperature.reshape(-1, 1).clamp(min=LOWEST_TEMPERATURE).to(logits_TV.dtype)


def _from_logits(
    returned_1TV: Tensor, labels_T: Tensor, temperature: float | Tensor, head: OutputHead
) -> tuple[Tensor, Tensor]:
    """Log-probability and entropy, in the release's order, which decides what the backward pass keeps."""
    log_probs = by_kernel if head.fused_cross_entropy else row_by_row
    entropy = entropy_function(
        compiled=head.compiled, chunk_tokens=head.chunk_tokens, checkpointed=head.checkpointed
    )
    logits_TV = returned_1TV.squeeze(0)
    if head.scaling is Scaling.IN_PLACE:
        _divide_in_place(logits_TV, temperature)
        first = log_probs(logits_TV, labels_T)
        return first, entropy(logits_TV)
    if head.scaling is Scaling.COPY or isinstance(temperature, Tensor) or temperature != 1:
        logits_TV = _divided(logits_TV, temperature)
    second = entropy(logits_TV)
    return log_probs(logits_TV, labels_T), second


def verl_log_prob_and_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    temperature: float | Tensor = 1.0,
    *,
    head: OutputHead,
) -> tuple[Tensor, Tensor]:
    """Log-probability of each label and entropy of each distribution, with gradients of both.

    What a release does with packed tokens is what ``head`` says:

    * ``scaling``: ``IN_PLACE`` is 0.4.1 to 0.8.0, log-probability before entropy; ``COPY`` is 0.9.0, entropy
      first; ``NONE`` is 0.9.1, which is 0.9.0 unless the temperature is the number 1. In place a number
      divides as it is, as in ``dp_actor.py``; in a copy it is rounded to the logits' dtype first, as a tensor
      always is, as in the engines since 0.7.1.
    * ``compiled``, ``chunk_tokens``, ``checkpointed``: the entropy, alike in all releases.
    * ``fused_cross_entropy``: one kernel for the log-probability, else a loop over rows.

    Args:
        hidden: ``[..., H]``; the logits are made in its dtype.
        weight: ``[V, H]``, the dtype of ``hidden``.
        labels: ``[...]``, int64, in ``[0, V)``.
        temperature: a number or, but for a fused head and since 0.7.1, a tensor shaped like ``labels``.
        head: a way that is computed in torch: logits, or fused in torch.

    Returns:
        Both shaped like ``labels``, float32; the entropy of a fused head in the dtype of ``hidden``.

    Raises:
        ValueError: another kind of head, or a fused one with a tensor for a temperature.

    Source: verl ``workers/actor/dp_actor.py``, ``workers/engine/fsdp/transformer_impl.py``,
    ``utils/torch_functional.py``, ``utils/experimental/torch_functional.py``, releases 0.4.1 to 0.9.1.
    """
    hidden_TH, labels_T = hidden.reshape(-1, hidden.shape[-1]), labels.reshape(-1)
    if head.kind is HeadKind.FUSED_TORCH:
        if isinstance(temperature, Tensor):
            raise ValueError("temperature must be a number: verl's fused heads take no tensor")
        log_probs, entropy = fused_in_torch(hidden_TH, weight, labels_T, temperature)
    elif head.kind is HeadKind.LOGITS:
        # A model returns [batch, tokens, V], of which verl takes the packed batch out.
        logits_1TV = functional.linear(hidden_TH[None], weight)
        log_probs, entropy = _from_logits(logits_1TV, labels_T, temperature, head)
    else:
        raise ValueError(f"head.kind must be logits or fused_torch, not {head.kind.value}")
    return log_probs.reshape(labels.shape), entropy.reshape(labels.shape)


#: The ways that are computed in torch, by the names that ``tuner`` shows their memory with.
HEADS = MappingProxyType(
    {
        name: head
        for name, head in COMPARED_HEADS.items()
        if head.kind in (HeadKind.LOGITS, HeadKind.FUSED_TORCH)
    }
)
IMPLEMENTATIONS: MappingProxyType[str, Implementation] = MappingProxyType(
    {name: partial(verl_log_prob_and_entropy, head=head) for name, head in HEADS.items()}
)
