"""Measured passes beside their predictions, in bytes."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

from tuner import memory
from tuner.accuracy.measured import MeasuredCase, MeasuredFile
from tuner.accuracy.workload import workload_of
from tuner.evidence import Evidence
from tuner.memory import Item, PhaseEstimate, Term
from tuner.units import MIB
from tuner.workload import Phase

_PHASES = {"update": Phase.UPDATE_ACTOR, "log_prob": Phase.OLD_LOG_PROB}
_NOT_OF_THE_ALLOCATOR = (Item.ENGINE, Item.KV_CACHE, Item.OVERHEAD)
_PARAMETERS, _OPTIMIZER = "actor_parameters", "actor_optimizer"

# Small tensors and workspaces that a process holds between passes; more than this is another engine
# that had not been freed yet, a fact of the recording and not of the pass.
RESIDUE_LIMIT = 192 * MIB


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One measured pass beside its prediction, in bytes."""

    case: MeasuredCase
    moment: str  # of the predicted peak
    terms: tuple[Term, ...]  # the predicted peak's addends, what something else held among them
    predicted_added: int
    foreign: int  # held before the pass by something that is not this engine

    @cached_property
    def predicted_peak(self) -> int:
        """Peak of the allocator; what something else held before the pass is counted."""
        return sum(term.bytes for term in self.terms)

    @property
    def measured_peak(self) -> int:
        """Peak of the allocator."""
        return self.case.peak_allocated_bytes

    @property
    def measured_added(self) -> int:
        """What the pass allocated on top of what was there."""
        return self.measured_peak - self.case.allocated_before_bytes

    @property
    def error(self) -> float:
        """Of the peak, as a share of the measured one; above 0: predicted too high."""
        return self.predicted_peak / self.measured_peak - 1

    @property
    def added_error(self) -> float:
        """Of what the pass adds, as a share of what was measured."""
        return self.predicted_added / self.measured_added - 1


@dataclass(frozen=True, kw_only=True)
class ComparedFile:
    """All passes of a file."""

    source: str
    measured: MeasuredFile
    comparisons: tuple[Comparison, ...]  # in the order of the file's cases


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Sizes of errors, without their signs, as shares."""

    median: float
    p95: float  # the least error that 95% of the passes do not exceed
    worst: float


@dataclass(frozen=True, kw_only=True)
class Summary:
    """How far predictions and measurements are apart, over all passes."""

    cases: int
    peak: Spread
    added: Spread


def compare(case: MeasuredCase) -> Comparison:
    """Predict one measured pass.

    Raises:
        TunerError: nothing is known of its model.
    """
    phase = memory.estimate(workload_of(case)).phase(_PHASES[case.pass_])
    assert phase is not None  # the workload has both passes
    terms = tuple(term for term in phase.peak.terms if term.item not in _NOT_OF_THE_ALLOCATOR)
    before = case.allocated_before_bytes
    if case.pass_ == "log_prob" and before < _states(terms, kept_by=case):
        terms = tuple(term for term in terms if term.name != _OPTIMIZER)  # AdamW had no states yet
    held = _held_before(case, phase, terms)
    foreign = before - held if before - held > RESIDUE_LIMIT else 0
    added = sum(term.bytes for term in terms) - held - _bytes(phase, "cublas_workspaces")
    if foreign:
        terms = (*terms, _foreign(foreign))
    return Comparison(case=case, moment=phase.peak.name, terms=terms, predicted_added=added, foreign=foreign)


def _held_before(case: MeasuredCase, phase: PhaseEstimate, terms: tuple[Term, ...]) -> int:
    """What the engine itself held when the pass began.

    States that it offloads between passes count where the measured bytes say that they were back.
    """
    before = case.allocated_before_bytes
    sizes = (_states(terms), _states(terms, kept_by=case))
    held = min(sizes, key=lambda size: abs(before - size))
    whole = _left_whole(case, phase)
    return held + whole if whole and before - held > whole else held


def _left_whole(case: MeasuredCase, phase: PhaseEstimate) -> int:
    """Weights that an earlier forward pass leaves gathered: all of them, or FSDP1's root unit."""
    if not case.reshard_after_forward:
        return _bytes(phase, "unsharded_model")
    if case.strategy != "fsdp":
        return 0
    return max(term.bytes for moment in phase.moments for term in moment.terms if term.name == "root_unit")


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


def summarise(comparisons: Sequence[Comparison]) -> Summary:
    """Errors of at least one pass, put together."""
    return Summary(
        cases=len(comparisons),
        peak=_spread([abs(row.error) for row in comparisons]),
        added=_spread([abs(row.added_error) for row in comparisons]),
    )


def _spread(errors: list[float]) -> Spread:
    ranked = sorted(errors)
    return Spread(
        median=statistics.median(ranked),
        p95=ranked[ceil(len(ranked) * 95 / 100) - 1],
        worst=ranked[-1],
    )
