"""The advice on a job that ran out of memory: what a run has shown limits what is offered."""

from msgspec.structs import replace

from tuner.advise.answer import Advice, Recommendation
from tuner.advise.failure import Failure, failed_of
from tuner.advise.needs import OF_CACHE, Measure, bytes_of_need
from tuner.advise.verdicts import Verdict
from tuner.rules.case import figures
from tuner.workload import Phase, Workload


def beneath_observed(advice: Advice, failure: Failure) -> Advice:
    """The advice without a block, and without what takes more memory than was seen to be there.

    Args:
        advice: as the model alone gives it.
        failure: the error with which the job ended.
    """
    return replace(
        advice,
        verdict=Verdict.RAN_OUT,
        combination=None,
        additions=(),
        if_reweighted=None,
        recommendations=tuple(item for item in advice.recommendations if _may_be(item, advice, failure)),
    )


def _may_be(item: Recommendation, advice: Advice, failure: Failure) -> bool:
    """Whether a recommendation leaves the memory that was missing, and fits beneath what was observed."""
    if item.workload is None:
        return True
    need = failure.need
    if need is not None and need.measure in OF_CACHE:
        return bytes_of_need(item.workload, need) >= bytes_of_need(advice.workload, need)
    if need is not None and need.measure is Measure.HOST:
        return bytes_of_need(item.workload, need) <= bytes_of_need(advice.workload, need)
    return _fits_beneath(item.workload, advice, failure)


def _fits_beneath(proposal: Workload, advice: Advice, failure: Failure) -> bool:
    """Whether no phase that ran out takes more, and every other that does has room for what was observed."""
    before, after = advice.estimate, figures(proposal).estimate
    beyond = observed_beyond_bytes(advice, failure)
    for phase in after.phases:
        known = before.phase(phase.phase)
        if known is not None and phase.peak_bytes <= known.peak_bytes:
            continue
        if phase.phase in _phases(failure) or phase.peak_bytes + beyond > after.capacity_bytes:
            return False
    return True


def _phases(failure: Failure) -> tuple[Phase, ...]:
    """The phases that may have run out: all, where neither the stack nor the size of a tensor tells."""
    if failure.place.phases:
        return failure.place.phases
    if failure.standing is None:
        return ()
    return (failure.standing.phase,) if failed_of(failure.error) is not None else tuple(Phase)


def observed_beyond_bytes(advice: Advice, failure: Failure) -> int:
    """By how much the job took more than the model has, at least; where no figure says, all that was free.

    Tensors and the one that found no room are held against those at the modelled peak, and what lies beside
    PyTorch against what the model has there.
    """
    card, failed = failure.card, failed_of(failure.error)
    if card is None or failed is None or card.tensor_bytes is None or card.modelled_tensor_bytes is None:
        peak = advice.estimate.worst.peak_bytes if failure.standing is None else failure.standing.peak_bytes
        return max(0, advice.estimate.capacity_bytes - peak)
    tensors = card.tensor_bytes + failed.low_bytes - card.modelled_tensor_bytes
    return max(0, tensors) + (card.strange_bytes or 0)
