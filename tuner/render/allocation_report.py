"""A failed allocation for a program, and the tensors that it can have been."""

from typing import Annotated

from msgspec import Meta

from tuner.advise.allocation import Explanation, Standing
from tuner.memory import Item
from tuner.memory.failed_allocation.explanation import FailedAllocation, Match
from tuner.render.allocation import formula
from tuner.render.publication import extended, publish
from tuner.workload import Phase


class CandidateReport(Match, frozen=True, kw_only=True):
    """A tensor that has the size of a failed allocation, with the advice on it."""

    advice: Annotated[tuple[str, ...], Meta(description="rules whose advice makes it smaller")]

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.tensor.name

    @property
    def what(self) -> str:
        """What it can be, in words."""
        return self.tensor.what

    @property
    def made_by(self) -> str:
        """What makes it, in words."""
        return self.tensor.made_by

    @property
    def item(self) -> Item:
        """What it is a part of."""
        return self.tensor.item

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases that have it."""
        return self.tensor.phases

    @property
    def formula(self) -> Annotated[str, Meta(description="the product with its numbers")]:
        """How its size comes about, in words."""
        return formula(self)

    @property
    def full_tokens(
        self,
    ) -> Annotated[int | None, Meta(description="tokens of a full micro-batch; 0 where unknown")]:
        """The most tokens that it is expected to have."""
        return self.tensor.tokens


class AllocationReport(FailedAllocation, frozen=True, kw_only=True):
    """A failed allocation and what it can have been, the likeliest first."""

    candidates: tuple[CandidateReport, ...]
    standing: Annotated[
        Standing | None, Meta(description="what the model says of it; null without a job")
    ] = None


publish(
    CandidateReport,
    "CandidateReport",
    *("name", "what", "made_by", "item", "phases", "formula", "confidence", "tokens", "low_tokens"),
    *("high_tokens", "full_tokens", "advice"),
    text="A tensor that has the size of a failed allocation.",
)
publish(
    AllocationReport,
    "AllocationReport",
    *("text", "low_bytes", "high_bytes", "free_bytes", "unused_bytes", "candidates", "standing"),
    defaults={"standing": None},
)


def allocation_report(explanation: Explanation) -> AllocationReport:
    """A failed allocation and what it can have been."""
    return extended(
        AllocationReport,
        explanation.failed,
        candidates=tuple(
            extended(CandidateReport, explained.match, advice=explained.advice)
            for explained in explanation.candidates
        ),
        standing=explanation.standing,
    )
