"""Measured passes beside their predictions, in bytes."""

import statistics
from collections.abc import Sequence
from functools import cached_property
from math import ceil
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from tuner import memory
from tuner.accuracy.measured_files import MeasuredCase, MeasuredFile
from tuner.accuracy.workload import workload_of
from tuner.evidence import Evidence
from tuner.field_marks import RelativeError
from tuner.memory import Item, PhaseEstimate, Term
from tuner.memory.fsdp.weights_left_gathered import left_gathered
from tuner.units import MIB
from tuner.workload import Phase, Workload

_PARAMETERS, _OPTIMIZER = "actor_parameters", "actor_optimizer"
_GATHER_BUFFERS = ("gathered_layer", "last_buffer")

# Small tensors and workspaces that a process holds between passes; more than this is another engine
# that had not been freed yet, a fact of the recording and not of the pass.
RESIDUE_LIMIT = 192 * MIB


class PassComparison(Struct, frozen=True, kw_only=True, dict=True):
    """One measured pass beside its prediction, in bytes."""

    case: MeasuredCase
    moment: Annotated[str, Meta(description="of the predicted peak")]
    # what something else held among them
    terms: Annotated[tuple[Term, ...], Meta(description="addends of predicted_peak_bytes")]
    predicted_added: int
    foreign: int  # held before the pass by something that is not this engine
    interval: tuple[int, int]  # of what the allocator may have reserved by the end of the pass

    @cached_property
    def predicted_peak(self) -> int:
        """Peak of the allocator as it is predicted; what something else held before the pass is counted."""
        return sum(term.bytes for term in self.terms)

    @property
    def measured_peak(self) -> int:
        """Peak of the allocator as it was measured."""
        return self.case.peak_allocated_bytes

    @property
    def reserved_in_interval(self) -> Annotated[bool | None, Meta(description="null where not recorded")]:
        """Whether the most that the allocator had reserved is inside the interval; None: not recorded."""
        reserved = self.case.peak_reserved_bytes
        return None if reserved is None else self.interval[0] <= reserved <= self.interval[1]

    @property
    def measured_added(self) -> int:
        """What the pass allocated on top of what was there."""
        return self.measured_peak - self.case.allocated_before_bytes

    @property
    def error(self) -> RelativeError:
        """The error of the predicted peak, as a share of the measured one; above 0: predicted too high."""
        return self.predicted_peak / self.measured_peak - 1

    @property
    def added_error(self) -> RelativeError:
        """The error of what the pass is predicted to add, as a share of what was measured."""
        return self.predicted_added / self.measured_added - 1


class ComparedFile(Struct, frozen=True, kw_only=True):
    """All passes of a file."""

    source: str
    measured: MeasuredFile
    comparisons: tuple[PassComparison, ...]  # in the order of the file's cases


class ErrorSpread(Struct, frozen=True, kw_only=True):
    """Sizes of errors, without their signs, as shares."""

    median: float
    p95: float  # the least error that 95% of the passes do not exceed
    worst: float


class Inside(Struct, frozen=True, kw_only=True):
    """How often what the allocator had reserved was inside its interval."""

    inside: int
    recorded: int  # passes whose reserved bytes were recorded

    @property
    def share(self) -> float:
        """The share of the recorded passes that were inside their interval; 1 without any."""
        return self.inside / self.recorded if self.recorded else 1.0


class Summary(Struct, frozen=True, kw_only=True):
    """How far predictions and measurements are apart, over all passes."""

    cases: int
    peak: ErrorSpread
    added: ErrorSpread
    reserved: Inside


def compare(case: MeasuredCase, workload: Workload | None = None) -> PassComparison:
    """Predict one measured pass.

    Args:
        case: the pass, and what was measured.
        workload: what it is a pass of, with an update and log-probabilities of the actor alone; None: as
            :func:`~tuner.accuracy.workload.workload_of` finds it.

    Raises:
        TunerError: nothing is known of its model.
    """
    workload = workload_of(case) if workload is None else workload
    phase = memory.estimate(workload).phase(Phase.UPDATE_ACTOR if case.trains else Phase.OLD_LOG_PROB)
    assert phase is not None  # the workload has both passes
    phase = _allocated(phase)
    before = case.allocated_before_bytes
    if not case.trains and before < _states(phase.peak.terms, kept_by=case):
        phase = _allocated(phase, without=(_OPTIMIZER,))  # AdamW had no states yet
    left = left_gathered(workload.model, workload.actor.engine)
    left_bytes = 0 if left is None else left.bytes
    held = _held_before(case, phase.peak.terms, left_bytes)
    if left_bytes and held > _states(phase.peak.terms):
        phase = _allocated(phase, without=_GATHER_BUFFERS)  # what is whole is not gathered again
    terms = phase.peak.terms
    foreign = before - held if before - held > RESIDUE_LIMIT else 0
    low, high = phase.reserved_interval
    return PassComparison(
        case=case,
        moment=phase.peak.name,
        terms=(*terms, _foreign(foreign)) if foreign else terms,
        predicted_added=sum(term.bytes for term in terms) - held - _bytes(phase, "cublas_workspaces"),
        foreign=foreign,
        interval=(low + foreign, high + foreign),
    )


def _allocated(phase: PhaseEstimate, *, without: tuple[str, ...] = ()) -> PhaseEstimate:
    """The phase with nothing but what PyTorch's allocator hands out."""
    return PhaseEstimate(
        phase=phase.phase,
        own=tuple(
            replace(
                moment,
                terms=tuple(term for term in moment.terms if term.of_allocator and term.name not in without),
            )
            for moment in phase.moments
        ),
    )


def _held_before(case: MeasuredCase, terms: tuple[Term, ...], left_gathered: int) -> int:
    """What the engine itself held when the pass began.

    States that it offloads between passes, and weights that an earlier pass leaves gathered, count
    where the measured bytes say that they were there.
    """
    before = case.allocated_before_bytes
    sizes = (_states(terms), _states(terms, kept_by=case))
    held = min(sizes, key=lambda size: abs(before - size))
    return held + left_gathered if left_gathered and before - held > left_gathered else held


def _states(terms: tuple[Term, ...], *, kept_by: MeasuredCase | None = None) -> int:
    """Bytes of parameters and optimizer; with ``kept_by``, of what that engine does not offload."""
    offloaded = set()
    if kept_by is not None:
        switches = ((_PARAMETERS, kept_by.param_offload), (_OPTIMIZER, kept_by.optimizer_offload))
        offloaded = {name for name, switched_on in switches if switched_on}
    names = {_PARAMETERS, _OPTIMIZER} - offloaded
    return sum(term.bytes for term in terms if term.name in names)


def _bytes(phase: PhaseEstimate, *names: str) -> int:
    """Bytes of terms that are there from the beginning of the phase."""
    return sum(term.bytes for term in phase.moments[0].terms if term.name in names)


def _foreign(size: int) -> Term:
    return Term(
        item=Item.OVERHEAD,
        name="foreign",
        bytes=size,
        evidence=Evidence.MEASURED,
        formula="allocated before the pass - held by the engine",
    )


def summarise(comparisons: Sequence[PassComparison]) -> Summary:
    """Errors of at least one pass, put together."""
    return Summary(
        cases=len(comparisons),
        peak=_spread([abs(row.error) for row in comparisons]),
        added=_spread([abs(row.added_error) for row in comparisons]),
        reserved=Inside(
            inside=sum(row.reserved_in_interval is True for row in comparisons),
            recorded=sum(row.reserved_in_interval is not None for row in comparisons),
        ),
    )


def _spread(errors: list[float]) -> ErrorSpread:
    ranked = sorted(errors)
    return ErrorSpread(
        median=statistics.median(ranked),
        p95=ranked[ceil(len(ranked) * 95 / 100) - 1],
        worst=ranked[-1],
    )
