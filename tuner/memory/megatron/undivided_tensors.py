r"""Activations that are not divided by tokens: at most how much they take, of which nothing is counted.

Without sequence parallelism tensor parallelism divides the projections alone, and norms and the residual
stream are whole on each of its ranks. What is counted is divided throughout, so that the whole of it is the
most that there can be.

Symbols: :math:`A` bytes of activations that are counted on a rank, :math:`T_p` tensor parallel size.
"""

from collections.abc import Iterable

from tuner.memory.ledger.terms import Item, Term
from tuner.memory.process.constant import Constant, heuristic
from tuner.workload import Engine

SYMBOLS = {
    "A": "bytes of activations that are counted on a rank",
    "g": "1 where nothing is divided, 0 where everything is",
}

_WHOLE = Constant(
    low=0,
    typical=0,
    high=1,
    source="between what divides every activation and what divides none",
)


def undivided_bytes(*, g: int, A: int, T_p: int) -> int:
    """What activations take beyond their share where tensor parallelism leaves them whole, at most.

    Source: Megatron-Core ``tensor_parallel/layers.py`` (``sequence_parallel``); verl 0.7.1
    ``workers/megatron_workers.py:212``, 0.9.1 ``workers/engine/megatron/transformer_impl.py:361``: read where
    Megatron-Bridge builds the model. mbridge and verl's own converter divide wherever :math:`T_p > 1`.
    """
    return g * (T_p - 1) * A


def undivided(engine: Engine, counted: Iterable[Term | None]) -> Term | None:
    """What the activations of a moment take beyond what is counted, None where they are divided by tokens."""
    ranks = engine.parallel.tensor
    if engine.divides_sequence or ranks == 1:
        return None
    activation_bytes = sum(
        term.bytes for term in counted if term is not None and term.item is Item.ACTIVATIONS
    )
    numbers = {"A": activation_bytes, "T_p": ranks}
    return heuristic(Item.ACTIVATIONS, "undivided", undivided_bytes, {"g": _WHOLE}, numbers)
