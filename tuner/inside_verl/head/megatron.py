"""The head in place of verl's Triton kernel, as Megatron's forward pass calls it."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tuner.inside_verl.head.policy.coverage import ACTOR
from tuner.inside_verl.head.policy.loss_handoff import WAY
from tuner.inside_verl.head.projection import kernel_mode
from tuner.inside_verl.settings import HEAD
from tuner.kernels import linear_cross_entropy

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    temperature: float = 1.0,
    reduction: str = "none",
    dist_process_group: "ProcessGroup | None" = None,
) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropy with the arguments, shapes and gradients of verl's function.

    T: tokens. V: vocabulary entries of this rank. H: hidden size.

    The gradient of the hidden states is left as this rank's part: the backward pass of Megatron's
    ``gather_from_sequence_parallel_region``, through which they came, sums it.

    Args:
        hidden: ``[..., H]``, T rows.
        weight: ``[V, H]``.
        labels: T of them, in any shape, of the whole vocabulary.
        temperature: divides the logits.
        reduction: of the log-probabilities: ``none``, ``sum`` or ``mean``.
        dist_process_group: the ranks over which the vocabulary is shared out.

    Returns:
        Log-probabilities, ``[T]`` or a scalar, and entropy, ``[T]``, both float32.

    Source: verl 0.5.0 to 0.9.1, ``verl/utils/kernel/linear_cross_entropy.py``.
    """
    if HEAD.read() == "policy" and torch.is_grad_enabled():
        WAY.say_not_covered(ACTOR + "strategy", "megatron")
    return linear_cross_entropy(
        hidden.reshape(-1, hidden.shape[-1]),
        weight,
        labels.reshape(-1),
        temperature,
        reduction,
        dist_process_group,
        mode=kernel_mode(),
        sum_hidden_gradient=False,
    )
