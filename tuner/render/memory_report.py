"""The memory of a job for a program: phases, moments, terms, and the symbols of their formulas."""

from typing import Annotated

from msgspec import Meta, Struct

from tuner.advise import Advice
from tuner.evidence import Evidence
from tuner.memory import Estimate, Item, Term
from tuner.memory.derivations import Symbol, symbols
from tuner.render.report_values import Bytes, Interval, Seconds
from tuner.timing import StepTime
from tuner.workload import Phase


class TermReport(Struct, frozen=True, kw_only=True):
    """One addend of a moment."""

    item: Item
    name: str
    bytes: Bytes
    interval_bytes: Interval
    evidence: Evidence
    formula: Annotated[str, Meta(description="in the names of symbols; neighbours are multiplied")]
    symbols: Annotated[dict[str, int | float], Meta(description="numbers by their names in the formula")]
    source: Annotated[str, Meta(description="the function whose text derives the formula")]

    @classmethod
    def of(cls, term: Term) -> "TermReport":
        """A term as it is."""
        return cls(
            item=term.item,
            name=term.name,
            bytes=term.bytes,
            interval_bytes=(term.low, term.high),
            evidence=term.evidence,
            formula=term.formula,
            symbols=dict(term.symbols),
            source=term.source,
        )


class AddendReport(Struct, frozen=True, kw_only=True):
    """An addend of a number that is itself a sum."""

    name: str
    number: int
    formula: str
    source: str


class SymbolReport(Struct, frozen=True, kw_only=True):
    """A symbol of the formulas with one of the numbers it stands for."""

    name: str
    number: int | float
    meaning: str
    formula: Annotated[str, Meta(description="what the number was computed from; empty where it is given")]
    symbols: Annotated[dict[str, int], Meta(description="numbers by their names in the formula")]
    parts: tuple[AddendReport, ...]

    @classmethod
    def of(cls, symbol: Symbol) -> "SymbolReport":
        """A symbol as it is."""
        derived = symbol.derivation
        return cls(
            name=symbol.name,
            number=symbol.number,
            meaning=symbol.meaning,
            formula="" if derived is None else derived.formula,
            symbols={} if derived is None else dict(derived.symbols),
            parts=tuple(
                AddendReport(
                    name=part.name,
                    number=part.derivation.value,
                    formula=part.derivation.formula,
                    source=part.source,
                )
                for part in symbol.parts
            ),
        )


class MomentReport(Struct, frozen=True, kw_only=True):
    """An instant within a phase."""

    name: str
    bytes: Bytes
    terms: tuple[TermReport, ...]


class PhaseReport(Struct, frozen=True, kw_only=True):
    """One phase of the step."""

    phase: Phase
    peak_bytes: Bytes
    interval_bytes: Annotated[tuple[int, int], Meta(description="the least and the most bytes of the peak")]
    allocated_bytes: Annotated[int, Meta(description="bytes at the peak of the trainer's own allocator")]
    reserved_interval_bytes: Annotated[
        tuple[int, int],
        Meta(description="the least and the most bytes that the trainer's own allocator keeps from others"),
    ]
    peak_moment: str
    moments: tuple[MomentReport, ...]
    seconds: Seconds | None


class MemoryReport(Struct, frozen=True, kw_only=True):
    """The memory of one GPU through one step."""

    capacity_bytes: Bytes
    worst_phase: Phase
    host_bytes: Annotated[int, Meta(description="bytes of host memory per node")]
    host_interval_bytes: Annotated[
        Interval | None, Meta(description="the least and the most bytes of host memory per node")
    ] = None
    host_terms: Annotated[tuple[TermReport, ...], Meta(description="what the host memory adds up from")] = ()
    host_capacity_bytes: Annotated[
        int | None, Meta(description="bytes of host memory that a node has; null where nobody said")
    ]
    problems: tuple[str, ...]
    doubts: Annotated[
        tuple[str, ...], Meta(description="why the job may not run although every phase fits")
    ] = ()
    phases: tuple[PhaseReport, ...]


def memory_report(estimate: Estimate, time: StepTime) -> MemoryReport:
    """The memory of a job, with the seconds of its phases."""
    phases = []
    for phase in estimate.phases:
        spent = time.phase(phase.phase)
        moments = tuple(
            MomentReport(
                name=moment.name,
                bytes=moment.bytes,
                terms=tuple(TermReport.of(term) for term in moment.terms),
            )
            for moment in phase.moments
        )
        phases.append(
            PhaseReport(
                phase=phase.phase,
                peak_bytes=phase.peak_bytes,
                interval_bytes=phase.interval,
                allocated_bytes=phase.allocated_bytes,
                reserved_interval_bytes=phase.reserved_interval,
                peak_moment=phase.peak.name,
                moments=moments,
                seconds=spent.seconds if spent is not None else None,
            )
        )
    return MemoryReport(
        capacity_bytes=estimate.capacity_bytes,
        worst_phase=estimate.worst.phase,
        host_bytes=estimate.host_bytes,
        host_interval_bytes=(estimate.host_bytes, estimate.host_high_bytes),
        host_terms=tuple(TermReport.of(term) for term in estimate.host_terms),
        host_capacity_bytes=estimate.host_capacity_bytes,
        problems=estimate.problems,
        doubts=estimate.doubts,
        phases=tuple(phases),
    )


def symbol_reports(advice: Advice) -> tuple[SymbolReport, ...]:
    """What the symbols of a job's terms stand for."""
    estimate = advice.estimate
    terms = [term for phase in estimate.phases for moment in phase.moments for term in moment.terms]
    terms += estimate.host_terms
    return tuple(SymbolReport.of(symbol) for symbol in symbols(advice.workload, terms))
