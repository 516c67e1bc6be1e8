"""What an estimate is made of: terms, moments, phases."""

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from tuner.evidence import Evidence
from tuner.workload import Phase


class Item(Enum):
    """What a term is; terms of one item are drawn as one part of a bar."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    UNSHARDED = "unsharded"  # gathered weights and full gradients of the units in flight
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    ENGINE = "engine"  # rollout engine: weights, activations, graphs
    KV_CACHE = "kv_cache"
    SYNC = "sync"  # weight-sync buckets and gathered tensors
    OVERHEAD = "overhead"  # CUDA context, communication buffers, workspaces


@dataclass(frozen=True, kw_only=True)
class Term:
    """One addend: bytes on one GPU.

    ``formula`` with the numbers of ``symbols`` put in, rounded up to whole bytes, is ``bytes``.
    """

    item: Item
    name: str  # stable identifier, e.g. "kv_cache"
    bytes: int
    evidence: Evidence = Evidence.EXACT
    formula: str = ""  # in the names of ``symbols``; neighbours are multiplied: "T V b"
    symbols: tuple[tuple[str, float], ...] = ()
    source: str = ""  # the deriving function, "memory.logits.head_peak_bytes"; its docstring is its page
    low_bytes: int | None = None  # ends of the interval of a size that is not derived; None: exactly bytes
    high_bytes: int | None = None

    @property
    def low(self) -> int:
        """The least bytes it may have."""
        return self.bytes if self.low_bytes is None else self.low_bytes

    @property
    def high(self) -> int:
        """The most bytes it may have."""
        return self.bytes if self.high_bytes is None else self.high_bytes


@dataclass(frozen=True, kw_only=True)
class Moment:
    """An instant within a phase; the terms are what is allocated then."""

    name: str
    terms: tuple[Term, ...]

    @cached_property
    def bytes(self) -> int:
        """Everything resident at this instant."""
        return sum(term.bytes for term in self.terms)

    @cached_property
    def interval(self) -> tuple[int, int]:
        """The least and the most bytes, by the intervals of the terms."""
        return sum(term.low for term in self.terms), sum(term.high for term in self.terms)


@dataclass(frozen=True, kw_only=True)
class PhaseEstimate:
    """One phase: its moments, the highest of which is the peak."""

    phase: Phase
    moments: tuple[Moment, ...]

    @cached_property
    def peak(self) -> Moment:
        """The moment with the most bytes; the first of equals."""
        return max(self.moments, key=lambda moment: moment.bytes)

    @property
    def peak_bytes(self) -> int:
        """Bytes at the peak, everything on the card counted."""
        return self.peak.bytes

    @cached_property
    def interval(self) -> tuple[int, int]:
        """The peak's least and most bytes: each end is the maximum of that end over the moments."""
        lows, highs = zip(*(moment.interval for moment in self.moments), strict=True)
        return max(lows), max(highs)

    def bytes_of(self, *items: Item) -> int:
        """Bytes of these items at the peak."""
        return sum(term.bytes for term in self.peak.terms if term.item in items)

    @property
    def allocated_bytes(self) -> int:
        """Peak of what the trainer's own PyTorch allocator hands out (no engine, no context)."""
        foreign = (Item.ENGINE, Item.KV_CACHE, Item.OVERHEAD)
        return max(
            sum(term.bytes for term in moment.terms if term.item not in foreign) for moment in self.moments
        )


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The memory of one GPU through one step."""

    phases: tuple[PhaseEstimate, ...]
    capacity_bytes: int
    host_bytes: int  # host memory per node: offloaded states and copies
    problems: tuple[str, ...] = ()  # why the job cannot start at all, e.g. no room for a KV cache

    @cached_property
    def worst(self) -> PhaseEstimate:
        """The phase with the highest peak."""
        return max(self.phases, key=lambda phase: phase.peak_bytes)

    def phase(self, phase: Phase) -> PhaseEstimate | None:
        """The estimate of one phase, None when the step does not have it."""
        return next((estimate for estimate in self.phases if estimate.phase is phase), None)

    def fits(self, headroom: float = 0.0) -> bool:
        """True when every phase stays below the capacity less ``headroom`` (a share of it)."""
        return not self.problems and self.worst.peak_bytes <= self.capacity_bytes * (1 - headroom)
