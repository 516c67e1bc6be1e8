"""A failed allocation for a program, and the tensors that it can have been."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.advise.allocation import Explanation, Standing
from tuner.field_marks import Bytes
from tuner.memory import Item
from tuner.memory.failed_allocation.explanation import Confidence
from tuner.render.allocation import formula
from tuner.workload import Phase


class CandidateReport(Struct, frozen=True, kw_only=True):
    """A tensor that has the size of a failed allocation."""

    name: str
    what: str
    made_by: str
    item: Item
    phases: tuple[Phase, ...]
    formula: Annotated[str, Meta(description="the product with its numbers")]
    confidence: Confidence
    tokens: Annotated[int | None, Meta(description="tokens that give the size; null without tokens")]
    low_tokens: int | None
    high_tokens: int | None
    full_tokens: Annotated[int | None, Meta(description="tokens of a full micro-batch; 0 where unknown")]
    advice: Annotated[tuple[str, ...], Meta(description="rules whose advice makes it smaller")]


class AllocationReport(Struct, frozen=True, kw_only=True):
    """A failed allocation and what it can have been, the likeliest first."""

    text: str
    low_bytes: Bytes
    high_bytes: Bytes
    free_bytes: Annotated[int | None, Meta(description="bytes free on the card, where the line says so")]
    unused_bytes: Annotated[int | None, Meta(description="bytes that PyTorch had reserved but not used")]
    candidates: tuple[CandidateReport, ...]
    standing: Annotated[
        Standing | None, Meta(description="what the model says of it; null without a job")
    ] = None


def allocation_report(explanation: Explanation) -> AllocationReport:
    """A failed allocation and what it can have been."""
    failed = explanation.failed
    return AllocationReport(
        text=failed.text,
        low_bytes=failed.low_bytes,
        high_bytes=failed.high_bytes,
        free_bytes=failed.free_bytes,
        unused_bytes=failed.unused_bytes,
        standing=explanation.standing,
        candidates=tuple(
            CandidateReport(
                name=match.tensor.name,
                what=match.tensor.what,
                made_by=match.tensor.made_by,
                item=match.tensor.item,
                phases=match.tensor.phases,
                formula=formula(match),
                confidence=match.confidence,
                tokens=match.tokens,
                low_tokens=match.low_tokens,
                high_tokens=match.high_tokens,
                full_tokens=match.tensor.tokens,
                advice=explained.advice,
            )
            for explained in explanation.candidates
            for match in (explained.match,)
        ),
    )
