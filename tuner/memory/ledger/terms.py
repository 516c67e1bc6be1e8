"""What an estimate is made of: terms, moments, phases."""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner.enumeration import Enum
from tuner.evidence import Evidence
from tuner.field_marks import Bytes, BytesInterval
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
    SERVICE = "service"  # inference engine of a reward model that shares the GPUs
    SYNC = "sync"  # weight-sync buckets and gathered tensors
    FREED = "freed"  # blocks that PyTorch keeps, while another process asks for memory
    OVERHEAD = "overhead"  # CUDA context, communication buffers, workspaces


# What the trainer's own PyTorch allocator does not hand out.
_NOT_OF_THE_ALLOCATOR = (Item.ENGINE, Item.KV_CACHE, Item.SERVICE, Item.FREED, Item.OVERHEAD)


class Term(Struct, frozen=True, kw_only=True):
    """One addend: bytes on one GPU.

    ``formula`` with the numbers of ``symbols`` put in, rounded up to whole bytes, is ``bytes``.
    """

    item: Item
    name: str  # stable identifier, e.g. "kv_cache"
    bytes: Bytes
    evidence: Evidence = Evidence.EXACT
    # such as "T V b"
    formula: Annotated[str, Meta(description="in the names of symbols; neighbours are multiplied")] = ""
    symbols: Annotated[
        tuple[tuple[str, float], ...], Meta(description="numbers by their names in the formula")
    ] = ()
    # such as "memory.head.logits.head_peak_bytes"; its docstring is its page
    source: Annotated[str, Meta(description="the function whose text derives the formula")] = ""
    low_bytes: int | None = None  # ends of the interval of a size that is not derived; None: exactly bytes
    high_bytes: int | None = None

    @property
    def of_allocator(self) -> bool:
        """Whether the trainer's own PyTorch allocator hands it out."""
        return self.item not in _NOT_OF_THE_ALLOCATOR

    @property
    def low(self) -> int:
        """The least bytes it may have."""
        return self.bytes if self.low_bytes is None else self.low_bytes

    @property
    def high(self) -> int:
        """The most bytes it may have."""
        return self.bytes if self.high_bytes is None else self.high_bytes

    @property
    def may_be_nothing(self) -> bool:
        """Whether it may not be there at all, so that nothing that is sure can be said by it."""
        return self.low == 0 < self.bytes

    @property
    def interval_bytes(self) -> BytesInterval:
        """The least and the most bytes it may have."""
        return self.low, self.high


class Moment(Struct, frozen=True, kw_only=True, dict=True):
    """An instant within a phase; the terms are what is allocated then."""

    name: str
    terms: tuple[Term, ...]

    @cached_property
    def bytes(self) -> Bytes:
        """Everything resident at this instant."""
        return sum([term.bytes for term in self.terms])

    def with_residents(self, resident: "Moment") -> "Moment":
        """The moment with what is resident throughout, which comes first."""
        moment = Moment(name=self.name, terms=(*resident.terms, *self.terms))
        (low, high), (own_low, own_high) = resident.interval, self.interval  # each known for many moments
        vars(moment).update(bytes=resident.bytes + self.bytes, interval=(low + own_low, high + own_high))
        return moment

    @cached_property
    def interval(self) -> tuple[int, int]:
        """The least and the most bytes, by the intervals of the terms."""
        return _interval(self.terms, self.bytes)


def _interval(terms: Sequence[Term], total: int) -> tuple[int, int]:
    uncertain = [term for term in terms if term.low_bytes is not None or term.high_bytes is not None]
    if not uncertain:
        return total, total
    return (
        total + sum([term.low - term.bytes for term in uncertain]),
        total + sum([term.high - term.bytes for term in uncertain]),
    )


def reserved_bytes(moments: Sequence[Moment]) -> tuple[int, int]:
    r"""The least and the most that PyTorch's allocator has taken from the driver when a phase ends.

    .. math::
        \max_m \sum_{t \in m} b_{t,m} \;\le\; \text{reserved} \;\le\; \sum_t \max_m b_{t,m}

    Over the moments :math:`m` and the terms :math:`t` that the allocator hands out, each end with that
    end of the terms' own intervals. It never takes less than what is allocated at once, the peak. A
    block that a tensor has freed is kept, and given to the next request that it can hold. The upper
    end is where that never happens between tensors of different kinds: each kind has blocks of its
    own, as many as it needs at its largest.

    It is a bound with a reason, not a fit. Not counted: what rounding requests up to whole blocks
    adds, and blocks of a kind that are too small for a later tensor of the same kind. Before a
    request of its own fails the allocator gives its free blocks back, and verl empties the cache
    between phases. So this tells what ``nvidia-smi`` may show, not whether a job fits.

    Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``malloc``, ``release_cached_blocks``).
    """
    largest: dict[str, int] = {}
    least = 0
    for moment in moments:
        terms = [term for term in moment.terms if term.of_allocator]
        least = max(least, sum(term.low for term in terms))
        for term in terms:
            largest[term.name] = max(largest.get(term.name, 0), term.high)
    return least, sum(largest.values())


def paged_bytes(moments: Sequence[Moment]) -> int:
    r"""The most that PyTorch's allocator has taken from the driver when a phase ends, in expandable segments.

    .. math::
        \max_m \sum_{t \in m} b_{t,m} + h

    All blocks of a stream lie in one segment, where freed neighbours merge whatever they held, and a request
    that no free run can hold maps only the pages which the run at the segment's end lacks. So blocks of one
    kind are no blocks of their own, as :func:`reserved_bytes` takes them to be. A free run stays beside the
    peak only beneath what is still alive: a layer's output is made while the layer's own tensors are there,
    which leave a hole :math:`h` below it. The next layer fills that and an output head need not, so it counts
    once: the largest kind of activations of which the peak has none.

    Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``find_expandable_block``,
    ``try_allocate_expandable_block``, ``try_merge_blocks``).
    """
    allocated = [[term for term in moment.terms if term.of_allocator] for moment in moments]
    peak = max(allocated, key=lambda terms: sum(term.high for term in terms), default=[])
    there = {term.name for term in peak}
    holes = (
        term.high
        for terms in allocated
        for term in terms
        if term.item is Item.ACTIVATIONS and term.name not in there
    )
    return sum(term.high for term in peak) + max(holes, default=0)


_NOTHING = Moment(name="resident", terms=())
#: What is remembered of a phase whatever the pass before it has left.
_OF_MOMENTS = ("moments", "peak", "peak_bytes", "interval")


class PhaseEstimate(Struct, frozen=True, kw_only=True, dict=True):
    """One phase: its moments, the highest of which is the peak.

    What is resident throughout stands apart: advice asks hundreds of times for the peak and its interval, and
    seldom for a moment with all its terms.
    """

    phase: Phase
    own: tuple[Moment, ...]  # the moments, without what is resident throughout
    resident: Moment = _NOTHING
    before: "PhaseEstimate | None" = None  # the pass whose freed blocks its trainer still has

    @cached_property
    def moments(self) -> tuple[Moment, ...]:
        """The instants of the phase, each with everything that is allocated then."""
        return tuple([moment.with_residents(self.resident) for moment in self.own])

    @cached_property
    def peak(self) -> Moment:
        """The moment with the most bytes; the first of equals."""
        return max(self.moments, key=lambda moment: moment.bytes)

    @cached_property
    def peak_bytes(self) -> Bytes:
        """Bytes at the peak, everything on the card counted."""
        return self.resident.bytes + max([moment.bytes for moment in self.own])

    @cached_property
    def interval(self) -> tuple[int, int]:
        """The peak's least and most bytes: each end is the maximum of that end over the moments."""
        lows, highs = zip(*[moment.interval for moment in self.own], strict=True)
        low, high = self.resident.interval
        return low + max(lows), high + max(highs)

    def behind(self, pass_before: "PhaseEstimate") -> "PhaseEstimate":
        """The phase behind a pass whose freed blocks its trainer still has: its own moments are the same."""
        other = replace(self, before=pass_before)
        values = vars(self)
        vars(other).update({name: values[name] for name in _OF_MOMENTS if name in values})
        return other

    def bytes_of(self, *items: Item) -> int:
        """Bytes of these items at the peak."""
        return sum(term.bytes for term in self.peak.terms if term.item in items)

    @property
    def allocated_bytes(
        self,
    ) -> Annotated[int, Meta(description="bytes at the peak of the trainer's own allocator")]:
        """Peak of what the trainer's own PyTorch allocator hands out (no engine, no context)."""
        return max(sum(term.bytes for term in moment.terms if term.of_allocator) for moment in self.moments)

    @property
    def allocated_high_bytes(self) -> int:
        """Bytes that PyTorch has allocated, with the upper end of every term."""
        return max(sum(term.high for term in moment.terms if term.of_allocator) for moment in self.moments)

    @cached_property
    def reserved_interval(self) -> tuple[int, int]:
        """The least and the most that PyTorch's allocator may hold by the end, see :func:`reserved_bytes`.

        Where the pass before has left its freed blocks, it is no less than that pass had. That one's blocks
        are taken to serve this pass too, as those of expandable segments do, which merge.
        """
        low, high = reserved_bytes(self.moments)
        if self.before is None:
            return low, high
        least, most = self.before.reserved_interval
        return max(low, least), max(high, most)

    @cached_property
    def most_paged_bytes(self) -> int:
        """The most that PyTorch may hold by the end in expandable segments, see :func:`paged_bytes`."""
        before = 0 if self.before is None else self.before.most_paged_bytes
        return min(self.reserved_interval[1], max(paged_bytes(self.moments), before))

    @cached_property
    def kept_bytes(self) -> int:
        """The most that PyTorch's allocator may hold of freed blocks, beyond what it has allocated."""
        return max(0, self.reserved_interval[1] - self.allocated_high_bytes)

    @cached_property
    def shown_high_bytes(self) -> int:
        """The most that ``nvidia-smi`` may show: what PyTorch may hold, and all that lies beside it.

        PyTorch gives freed blocks back before a request of its own fails, so that they end no run, and are
        no part of what is judged; but for those of another process that stand among the terms.

        Source: torch ``c10/cuda/CUDACachingAllocator.cpp`` (``release_cached_blocks``).
        """
        return self.shown_interval[1]

    @cached_property
    def shown_interval(self) -> tuple[int, int]:
        """The least and the most that ``nvidia-smi`` shows by the end, blocks that the trainer keeps counted.

        Those of passes before are among them, see :attr:`reserved_interval`.
        """
        foreign_terms = [
            [term for term in moment.terms if not term.of_allocator and term.item is not Item.FREED]
            for moment in self.moments
        ]
        least, most = self.reserved_interval
        return (
            max(self.interval[0], min(sum(term.low for term in terms) for terms in foreign_terms) + least),
            max(self.interval[1], max(sum(term.high for term in terms) for terms in foreign_terms) + most),
        )


_NOT_COUNTED = PhaseEstimate(phase=Phase.TRAIN, own=(_NOTHING,))  # where no phase is known


class Estimate(Struct, frozen=True, kw_only=True, dict=True):
    """The memory of one GPU through one step."""

    phases: tuple[PhaseEstimate, ...]
    capacity_bytes: Bytes
    # offloaded states and copies
    host_bytes: Annotated[int, Meta(description="bytes of host memory per node")]
    host_terms: Annotated[tuple[Term, ...], Meta(description="what the host memory adds up from")] = ()
    host_capacity_bytes: Annotated[
        int | None, Meta(description="bytes of host memory that a node has; null where nobody said")
    ] = None
    problems: tuple[str, ...] = ()  # why the job cannot run whatever a GPU holds, e.g. no room for a KV cache
    doubts: Annotated[
        tuple[str, ...], Meta(description="why the job may not run although every phase fits")
    ] = ()

    @cached_property
    def worst(self) -> PhaseEstimate:
        """The phase with the highest peak."""
        return max(self.phases, key=lambda phase: phase.peak_bytes, default=_NOT_COUNTED)

    @cached_property
    def telling_phases(self) -> tuple[PhaseEstimate, ...]:
        """The phases that a short answer shows: all but saving a checkpoint, which no other hides behind.

        Saving is among them where its high end is above every other phase's peak.
        """
        phases = tuple(phase for phase in self.phases if phase.phase is not Phase.SAVE_CHECKPOINT)
        saving = self.phase(Phase.SAVE_CHECKPOINT)
        if saving is None or saving.interval[1] <= max(phase.peak_bytes for phase in phases):
            return phases
        return self.phases

    def phase(self, phase: Phase) -> PhaseEstimate | None:
        """The estimate of one phase, None when the step does not have it."""
        return next((estimate for estimate in self.phases if estimate.phase is phase), None)

    @cached_property
    def high_bytes(self) -> int:
        """The most that any phase may take, by the intervals of its terms."""
        return max((phase.interval[1] for phase in self.phases), default=0)

    @property
    def host_high_bytes(self) -> int:
        """The most host memory that a node may need, by the intervals of the terms."""
        return max(self.host_bytes, sum(term.high for term in self.host_terms))

    @property
    def host_is_short(self) -> bool:
        """Whether a node has too little host memory."""
        limit = self.host_capacity_bytes
        return (
            limit is not None
            and sum(term.bytes for term in self.host_terms if not term.may_be_nothing) > limit
        )

    def fits(self, headroom: float = 0.0) -> bool:
        """True when every phase stays below the capacity less ``headroom`` (a share of it)."""
        return not self.problems and self.worst.peak_bytes <= self.capacity_bytes * (1 - headroom)

    def fits_for_certain(self) -> bool:
        """True when even the high end of every phase's interval is within the card, without a doubt."""
        return not self.problems and not self.doubts and self.high_bytes <= self.capacity_bytes
