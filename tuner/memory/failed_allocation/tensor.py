"""One tensor of a job, for telling what one allocation was."""

from math import ceil, prod

from msgspec import Struct

from tuner.language import _
from tuner.memory.ledger.terms import Item
from tuner.workload import Phase

Factor = tuple[int, str]
"""A number and what it counts."""


class Tensor(Struct, frozen=True, kw_only=True):
    r"""One tensor on one GPU, allocated in one piece.

    .. math:: \lceil f_1 f_2 \ldots / W \rceil \, b \quad\text{or}\quad T f_1 f_2 \ldots b
       \quad\text{or}\quad T^2 f_1 f_2 \ldots b
    """

    name: str  # stable identifier
    kinds: tuple[str, ...]  # what it can be, in words
    made_by: str
    item: Item
    factors: tuple[Factor, ...]  # without tokens and bytes
    dtype_bytes: int
    ranks: int = 1  # that share it
    tokens: int | None = None  # of the fullest micro-batch, 0 when unknown; None: it has no tokens
    quadratic: bool = False  # in the tokens of one sequence
    phases: tuple[Phase, ...] = ()

    @property
    def what(self) -> str:
        """What it can be, in words."""
        *rest, last = self.kinds
        return _("{rest} or {last}").format(rest=_(", ").join(rest), last=last) if rest else last

    @property
    def unit_bytes(self) -> int:
        """Bytes of the whole tensor, or of one token."""
        return ceil(prod(count for count, _ in self.factors) / self.ranks) * self.dtype_bytes

    @property
    def full_bytes(self) -> int:
        """Bytes with the fullest micro-batch."""
        if self.tokens is None:
            return self.unit_bytes
        return self.unit_bytes * self.tokens ** (2 if self.quadratic else 1)
