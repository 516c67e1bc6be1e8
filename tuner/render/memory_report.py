"""How memory is published: phases, moments, terms, the symbols of their formulas, a failed allocation."""

from typing import Annotated

from msgspec import Meta

from tuner.advise import Advice
from tuner.advise.allocation import Explanation, TensorMatch
from tuner.field_marks import BytesInterval, Seconds
from tuner.memory import Estimate, Moment, PhaseEstimate, Term
from tuner.memory.derivations import Addend, Symbol, symbols
from tuner.render.publication import extended, publish
from tuner.timing import StepTime
from tuner.workload import Phase


class PhaseReport(PhaseEstimate, frozen=True, kw_only=True):
    """One phase of the step: its memory, with its seconds."""

    seconds: Seconds | None

    @property
    def interval_bytes(
        self,
    ) -> Annotated[tuple[int, int], Meta(description="the least and the most bytes of the peak")]:
        """The interval of the peak."""
        return self.interval

    @property
    def reserved_interval_bytes(
        self,
    ) -> Annotated[
        tuple[int, int],
        Meta(description="the least and the most bytes that the trainer's own allocator keeps from others"),
    ]:
        """The interval of what the allocator has reserved."""
        return self.reserved_interval

    @property
    def shown_interval_bytes(
        self,
    ) -> Annotated[
        tuple[int, int],
        Meta(description="the least and the most bytes that the card shows by the end, freed blocks counted"),
    ]:
        """The interval of what the driver reports."""
        return self.shown_interval

    @property
    def peak_moment(self) -> str:
        """The name of the moment with the most bytes."""
        return self.peak.name


class MemoryReport(Estimate, frozen=True, kw_only=True):
    """The memory of one GPU through one step, with the seconds of its phases."""

    phases: tuple[PhaseReport, ...]

    @property
    def worst_phase(self) -> Annotated[Phase | None, Meta(description="null where no phase is modelled")]:
        """The phase with the highest peak."""
        return self.worst.phase if self.phases else None

    @property
    def host_interval_bytes(
        self,
    ) -> Annotated[
        BytesInterval | None, Meta(description="the least and the most bytes of host memory per node")
    ]:
        """The interval of the host memory of a node."""
        return self.host_bytes, self.host_high_bytes


publish(
    Term,
    "TermReport",
    *("item", "name", "bytes", "interval_bytes", "evidence", "formula", "symbols", "source"),
    text="One addend of a moment.",
    types={
        "symbols": Annotated[
            dict[str, int | float], Meta(description="numbers by their names in the formula")
        ]
    },
)
publish(Moment, "MomentReport", "name", "bytes", "terms", text="An instant within a phase.")
publish(
    PhaseReport,
    "PhaseReport",
    *("phase", "peak_bytes", "interval_bytes", "allocated_bytes", "reserved_interval_bytes"),
    "shown_interval_bytes",
    *("peak_moment", "moments", "seconds"),
    text="One phase of the step.",
)
publish(
    MemoryReport,
    "MemoryReport",
    *("capacity_bytes", "worst_phase", "host_bytes", "host_interval_bytes", "host_terms"),
    *("host_capacity_bytes", "problems", "doubts", "phases"),
    text="The memory of one GPU through one step.",
    defaults={"host_interval_bytes": None, "host_terms": (), "doubts": ()},
)
publish(Addend, "AddendReport", "name", "number", "formula", "source")
publish(
    Symbol,
    "SymbolReport",
    *("name", "number", "meaning", "formula", "symbols", "parts"),
    types={
        "number": int | float,
        "symbols": Annotated[dict[str, int], Meta(description="numbers by their names in the formula")],
    },
)

publish(
    TensorMatch,
    "CandidateReport",
    *("name", "what", "made_by", "item", "phases", "formula", "confidence", "tokens", "low_tokens"),
    *("high_tokens", "full_tokens", "advice"),
    text="A tensor that has the size of a failed allocation.",
)
publish(
    Explanation,
    "AllocationReport",
    *("text", "low_bytes", "high_bytes", "free_bytes", "unused_bytes", "candidates", "standing"),
    defaults={"standing": None},
)


def memory_report(estimate: Estimate, time: StepTime) -> MemoryReport:
    """The memory of a job, with the seconds of its phases."""
    phases = []
    for phase in estimate.phases:
        spent = time.phase(phase.phase)
        phases.append(extended(PhaseReport, phase, seconds=None if spent is None else spent.seconds))
    return extended(MemoryReport, estimate, phases=tuple(phases))


def symbols_of(advice: Advice) -> tuple[Symbol, ...]:
    """What the symbols of a job's terms stand for."""
    estimate = advice.estimate
    terms = [term for phase in estimate.phases for moment in phase.moments for term in moment.terms]
    return symbols(advice.workload, [*terms, *estimate.host_terms])
