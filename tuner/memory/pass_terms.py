"""Terms that the passes of every backend are made of."""

from collections.abc import Mapping
from math import ceil

from msgspec import Struct

from tuner.evidence import Evidence
from tuner.memory.head import logits
from tuner.memory.ledger.formula import names
from tuner.memory.ledger.recorded import Recorded, derivation
from tuner.memory.ledger.terms import Item, Moment, Term
from tuner.memory.process.overhead import CUBLAS_WORKSPACES
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


def workspace() -> Term:
    """What cuBLAS keeps through PyTorch's allocator."""
    return Term(
        item=Item.ACTIVATIONS,
        name="cublas_workspaces",
        bytes=CUBLAS_WORKSPACES.typical,
        evidence=Evidence.HEURISTIC,
        formula="w",
        symbols=(("w", CUBLAS_WORKSPACES.typical),),
        source="memory.process.overhead.CUBLAS_WORKSPACES",
        low_bytes=CUBLAS_WORKSPACES.low,
        high_bytes=CUBLAS_WORKSPACES.high,
    )


def logits_term(given: PassInput) -> Term:
    """The logits alone, while the projection runs."""
    model, each = given.model, given.head.logits_dtype.bytes
    return term(
        Item.LOGITS,
        "logits",
        given.tokens * model.vocab * each,
        "T V logits",
        symbols={"T": given.tokens, "V": model.vocab, "logits": each},
        source="memory.head.logits.forward_tensors",
    )


def head_term(given: PassInput, *, training: bool) -> Term:
    """The output head at its peak, every tensor by name; of one GPU that has the whole vocabulary."""
    name = "head_backward" if training else "head_forward"
    if given.head.kind is HeadKind.LOGITS:
        return tensors_term(
            name,
            logits.logit_tensors(given.head, tokens=given.tokens, entropy=given.entropy, training=training),
            tokens=given.tokens,
            chunk=logits.entropy_chunk(given.head, given.tokens),
            columns=("V", given.model.vocab),
            source="memory.head.logits.logit_tensors",
        )
    # The functions themselves write the formula.
    value_head = given.model.value_head
    size = logits.head_peak_bytes(
        given.head,
        tokens=Recorded.symbol("T", given.tokens),
        vocab=0 if value_head else Recorded.symbol("V", given.model.vocab),
        hidden=Recorded.symbol("H", given.model.hidden),
        entropy=given.entropy,
        training=training,
    )
    derived = derivation(size)
    if given.head.kind is HeadKind.VALUE:
        source = "value_head_bytes"
    else:
        source = "fused_training_bytes" if training else "fused_forward_bytes"
    return term(
        Item.LOGITS,
        name,
        derived.value,
        derived.formula,
        symbols=dict(derived.symbols),
        source=f"memory.head.fused.{source}",
    )


def tensors_term(
    name: str, tensors: logits.Tensors, *, tokens: int, chunk: int, columns: tuple[str, int], source: str
) -> Term:
    """A head whose logits exist, as the sum of its tensors.

    Args:
        name: the term's name.
        tensors: what exists at the peak; their names are symbols of the formula.
        tokens: rows of the logits.
        chunk: tokens of one chunk of the entropy.
        columns: vocabulary entries of this GPU, and their symbol.
        source: the deriving function.
    """
    last = logits.last_chunk(tokens, chunk)
    numbers: dict[str, float] = {"T": tokens, "T_c": chunk, "T_l": last, columns[0]: columns[1]}
    by_span: dict[logits.Span, list[str]] = {}
    for tensor in tensors:
        numbers[tensor.name] = tensor.bytes_per_logit
        by_span.setdefault(tensor.span, []).append(tensor.name)
    rows = " + ".join(f"{span.value} {_sum(found)}" for span, found in by_span.items())
    formula = f"{columns[0]} {rows}" if len(by_span) == 1 else f"{columns[0]} ({rows})"
    size = columns[1] * logits.bytes_per_column(tensors, tokens, chunk)
    return term(Item.LOGITS, name, size, formula, symbols=numbers, source=source)


def _sum(found: list[str]) -> str:
    return found[0] if len(found) == 1 else f"({' + '.join(found)})"
