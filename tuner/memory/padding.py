"""What padding may add to a micro-batch whose token budget counts real tokens alone."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from tuner.batching import most_micro_batch_tokens
from tuner.counted import counted
from tuner.language import _
from tuner.memory.ledger.terms import Moment, PhaseEstimate, Term
from tuner.units import GIB
from tuner.workload import Phase, Workload


def reaching(moments: Sequence[Moment], most: Sequence[Moment]) -> tuple[Moment, ...]:
    """The moments of a pass with the upper ends that they have with more tokens.

    Args:
        moments: as they are counted.
        most: the same moments of the same pass with the most tokens that there may be.
    """
    ends = {(moment.name, term.name): term for moment in most for term in moment.terms}
    return tuple(
        [
            Moment(
                name=moment.name,
                terms=tuple([_up_to(term, ends[moment.name, term.name]) for term in moment.terms]),
            )
            for moment in moments
        ]
    )


def _up_to(term: Term, most: Term) -> Term:
    return term if most.high <= term.high else replace(term, low_bytes=term.low, high_bytes=most.high)


def padding_doubt(workload: Workload, phase_of: Callable[[Phase], PhaseEstimate | None]) -> str | None:
    """Why a job whose budgets hold may run out of memory all the same: sequences are short, and padded.

    Args:
        workload: the job.
        phase_of: the estimate of a phase.
    """
    capacity = workload.cluster.gpu.capacity_bytes
    passes = [one for one in workload.passes() if one.batching.dynamic and not one.engine.packed]
    if not passes:
        return None
    found = {one: estimate for one in passes if (estimate := phase_of(one.phase)) is not None}
    worst = max(found, key=lambda one: found[one].interval[1])
    if not max(estimate.peak_bytes for estimate in found.values()) <= capacity < found[worst].interval[1]:
        return None
    return _(
        "a token budget counts no padding, which is computed all the same: the shorter sequences are, "
        "the more of them share a micro-batch; in {phase} {tokens} and {gib:.1f} GiB at most"
    ).format(
        phase=worst.phase.value,
        tokens=counted(most_micro_batch_tokens(workload.batch, worst), "token"),
        gib=found[worst].interval[1] / GIB,
    )
