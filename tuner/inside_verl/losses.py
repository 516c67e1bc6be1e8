"""Losses as verl's engine hands them to its workers, and how verl aggregates the losses of tokens."""

import dataclasses
import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class WholeBatchLoss:
    """A loss of verl that is divided by the tokens of a whole mini-batch, where only a part of it runs."""

    loss: Callable[..., Any]
    tokens: int  # of the whole mini-batch, on all ranks

    def __call__(self, *, model_output: Any, data: Any, dp_group: Any = None) -> Any:
        """The loss of a micro-batch."""
        import_module("verl.utils.tensordict_utils").assign_non_tensor(data, batch_num_tokens=self.tokens)
        return self.loss(model_output=model_output, data=data, dp_group=dp_group)


def innermost(loss_function: Any) -> Any:
    """The loss function of verl with what is bound to it."""
    return loss_function.loss if isinstance(loss_function, WholeBatchLoss) else loss_function


def with_innermost(loss_function: Any, other: Callable[..., Any]) -> Callable[..., Any]:
    """Another function in the place of verl's own, called as that is."""
    if isinstance(loss_function, WholeBatchLoss):
        return dataclasses.replace(loss_function, loss=other)
    return other


def loss_name(loss_function: Any) -> str:
    """The name of verl's own loss function, ``ppo_loss`` for an actor's."""
    inner = innermost(loss_function)
    return getattr(inspect.unwrap(getattr(inner, "func", inner)), "__name__", "")


def token_weights(mask: Tensor, loss_agg_mode: str, dtype: torch.dtype, **normalisation: Any) -> Tensor:
    """What verl's own aggregation multiplies the loss of each token by: shaped like the mask.

    The aggregation is linear, so this is its gradient.

    Args:
        mask: ``[sequences, tokens]``, as verl's loss gets it.
        loss_agg_mode: verl's.
        dtype: of the result.
        normalisation: what this release's ``agg_loss`` takes beside these.
    """
    aggregate = sys.modules["verl.trainer.ppo.core_algos"].agg_loss
    with torch.enable_grad():
        ones = torch.ones(mask.shape, dtype=dtype, device=mask.device, requires_grad=True)
        total = aggregate(loss_mat=ones, loss_mask=mask, loss_agg_mode=loss_agg_mode, **normalisation)
        (gradient,) = torch.autograd.grad(total, ones)
    return gradient
