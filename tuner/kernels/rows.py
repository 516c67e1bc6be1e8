"""The rows that a pass works on: the others cost nothing.

T: rows given. R: rows worked on.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A selection of rows, in order."""

    index_R: Tensor | None  # int64; None: all of them
    count: int

    def take(self, values: Tensor, dim: int = 0) -> Tensor:
        """Their values; the tensor itself where they are all."""
        return values if self.index_R is None else values.index_select(dim, self.index_R)

    def put(self, values_R: Tensor, total: int) -> Tensor:
        """Rows of ``total``, zero where nothing was worked on."""
        if self.index_R is None:
            return values_R
        spread = values_R.new_zeros((total, *values_R.shape[1:]))
        return spread.index_copy_(0, self.index_R, values_R)


def select(active_T: Tensor, count: int | None = None) -> Rows:
    """The rows where it is true; reads from the device unless their count is given and is all."""
    if count is not None and count == active_T.numel():
        return Rows(index_R=None, count=count)
    index_R = active_T.nonzero().squeeze(1)
    if index_R.numel() == active_T.numel():
        return Rows(index_R=None, count=index_R.numel())
    return Rows(index_R=index_R, count=index_R.numel())


def positions(active_T: Tensor) -> Tensor:
    """Where each row stands among the active ones, int64."""
    return torch.cumsum(active_T, 0) - 1
