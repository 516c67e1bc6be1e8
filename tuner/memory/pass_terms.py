"""One micro-batch of one pass, and what the passes of every backend are made of."""

from collections.abc import Mapping
from math import ceil

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.memory.ledger.formula import names
from tuner.memory.ledger.terms import Item, Moment, Term
from tuner.model_shape import ModelShape
from tuner.workload import Engine, HeadKind, OutputHead


class PassInput(Struct, frozen=True, kw_only=True):
    """One micro-batch of one pass."""

    model: ModelShape
    engine: Engine
    head: OutputHead
    tokens: int  # on this GPU
    entropy: bool
    micro_batches: int  # of one optimizer step; 1 for a forward-only pass
    step_tokens: int | None = None  # of one optimizer step on this GPU; None: of full micro-batches

    @property
    def fused_head(self) -> bool:
        """Whether the logits never exist, so that the head runs inside the model's forward pass."""
        return self.head.kind is not HeadKind.LOGITS


def term(
    item: Item,
    name: str,
    size: float,
    formula: str,
    evidence: Evidence = Evidence.MODELLED,
    *,
    symbols: Mapping[str, float] | None = None,
    source: str = "",
) -> Term:
    """A term; sizes are rounded up to whole bytes.

    Args:
        item: what it is.
        name: its stable identifier.
        size: bytes.
        formula: in the names of ``symbols``.
        evidence: how sure it is.
        symbols: numbers by name; those that the formula does not use are left out.
        source: the deriving function.
    """
    numbers = symbols or {}
    used = tuple([(symbol, numbers[symbol]) for symbol in names(formula)]) if numbers else ()
    return Term(
        item=item,
        name=name,
        bytes=ceil(size),
        evidence=evidence,
        formula=formula,
        symbols=used,
        source=source,
    )


def moment(name: str, *terms: Term | None) -> Moment:
    """A moment of the terms that exist and are not empty."""
    return Moment(name=name, terms=tuple([part for part in terms if part is not None and part.bytes]))
