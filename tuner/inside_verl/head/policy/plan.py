"""The loss of one micro-batch, as the head of a model reads it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tuner.kernels.policy_objective import Objective


@dataclass(frozen=True, kw_only=True)
class PlannedLoss:
    """What the loss of a micro-batch is made of, beside the log-probabilities; R: rows of the head."""

    objective: Objective
    tokens: Tensor  # [4, R], of ``policy_objective.token_losses``; of weight zero where there is no loss


@dataclass(frozen=True, kw_only=True)
class HeadRows:
    """Which row of this rank's head gives the log-probability of each token of the responses."""

    numbers: Tensor  # [sequences, tokens], over the rows of all ranks that share the sequences
    first: int  # the number of this rank's first row
    count: int  # R

    def spread(self, values: Tensor, mask: Tensor) -> Tensor:
        """Values of tokens, ``[..., sequences, tokens]``, where their rows are: ``[..., R]``, else zero."""
        place = self.numbers[mask].long() - self.first
        own = ((place >= 0) & (place < self.count)).nonzero().squeeze(1)
        spread = values.new_zeros(*values.shape[:-2], self.count)
        spread[..., place[own]] = values[..., mask][..., own]
        return spread


def planned(
    objective: Objective, rows: HeadRows, mask: Tensor, weights: Tensor, fields: dict[str, Tensor | None]
) -> PlannedLoss:
    """The plan from what verl holds by sequences.

    Args:
        objective: coefficients.
        rows: which row of the head each token of a response is.
        mask: ``[sequences, tokens]``, of the response.
        weights: shaped like it, as the next.
        fields: ``old``, ``advantages`` and ``reference``, the last None where it is not read.
    """
    values = (fields["old"], fields["advantages"], weights, fields["reference"])
    zeros = torch.zeros_like(weights)
    stacked = torch.stack([zeros if value is None else value.to(zeros) for value in values])
    return PlannedLoss(objective=objective, tokens=rows.spread(stacked, mask.bool()))
