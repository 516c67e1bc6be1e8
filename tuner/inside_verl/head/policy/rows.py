"""Where verl takes the log-probability of each token of a response from."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor


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
