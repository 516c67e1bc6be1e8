"""The loss of one micro-batch as the head of a model reads it, and the rows where verl takes it from."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

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


class RowNumbers:
    """Stands in for a model: gives the number of each row of its head in place of a log-probability.

    What verl makes of log-probabilities, it makes of these, and so it is read where they go: padding is put
    in or left out, rows of other ranks are gathered, prompts are cut off, however a release does that.
    """

    def __init__(self, model: Any, ranks: int) -> None:
        """Wraps the model, which answers every other question, with so many ranks to a sequence (Ulysses)."""
        self._model = model
        self._ranks = ranks
        self.count = self.first = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, *, input_ids: Tensor, shift_labels: Tensor | None = None, **_: Any) -> Any:
        """The output of the model's forward pass with the head."""
        shape = list(input_ids.shape if shift_labels is None else shift_labels.shape)
        if shift_labels is None and self._ranks > 1 and self._slices_embeddings():
            shape[-1] //= self._ranks
        self.count = shape[0] * shape[-1]
        self.first = self._rank() * self.count
        # In float64 every number of a row is exact.
        numbers = torch.arange(
            self.first, self.first + self.count, dtype=torch.float64, device=input_ids.device
        ).view(shape)
        return SimpleNamespace(log_probs=numbers, entropy=numbers.clone())

    def _slices_embeddings(self) -> bool:
        """As verl asks: such a model gets the tokens of all ranks."""
        return hasattr(getattr(self._model, "module", self._model).config, "vision_config")

    def _rank(self) -> int:
        if self._ranks == 1:
            return 0
        from verl.utils import ulysses

        rank: int = ulysses.get_ulysses_sequence_parallel_rank()
        return rank


@contextmanager
def standing_in(holder: Any, attribute: str, ranks: int) -> Iterator[RowNumbers]:
    """Puts it in the place of the model that a worker holds, without gradients, for as long as this lasts."""
    model = getattr(holder, attribute)
    numbers = RowNumbers(model, ranks)
    setattr(holder, attribute, numbers)
    try:
        with torch.no_grad():
            yield numbers
    finally:
        setattr(holder, attribute, model)
