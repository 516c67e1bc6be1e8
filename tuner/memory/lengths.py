"""How long sequences may grow before a job stops fitting.

Static micro-batches hold a fixed number of sequences. Sized for the longest possible ones, a job
can be far over the card and still run for days, until responses have grown. This tells where the
line is, so that neither case is called by the other's name.
"""

from collections.abc import Sequence
from math import ceil

from tuner.memory.estimate import estimate
from tuner.workload import Workload

STEPS = 12  # bisection: the limit is found to within 1/4096 of the longest sequence
# Below this share of the maximum length a job is not worth calling "fits while short". The recipes
# that verl documents to run, and that are over the card at full length, fit up to a third or a half.
SHORTEST_SHARE = 1 / 8


def _with_share(workload: Workload, share: float) -> Workload:
    batch = workload.batch
    return workload.with_batch(
        max_prompt_tokens=max(1, ceil(batch.max_prompt_tokens * share)),
        max_response_tokens=max(1, ceil(batch.max_response_tokens * share)),
    )


def mean_tokens_that_fit(
    workloads: Sequence[Workload], *, shortest: float = SHORTEST_SHARE, surely: bool = False
) -> int | None:
    """The largest mean sequence length with which every phase fits.

    Args:
        workloads: the job under each behaviour that it may have; prompts and responses are shortened in
            proportion.
        shortest: the smallest share of the maximum length worth asking about.
        surely: ask for the high end of every phase's interval, too.

    Returns:
        The mean number of tokens per sequence, at most the maximum; None when the job does not fit
        even at ``shortest``, so that length is not what decides.
    """
    share = 1.0
    for workload in workloads:
        found = _largest_share(workload, shortest, share, surely=surely)
        if found is None:
            return None
        share = found
    return int(workloads[0].batch.sequence_tokens * share)


def _largest_share(workload: Workload, shortest: float, most: float, *, surely: bool) -> float | None:
    """The largest share of the maximum length, up to ``most``, that fits."""

    def fits(share: float) -> bool:
        found = estimate(workload if share == 1 else _with_share(workload, share))
        return found.fits_for_certain() if surely else found.fits()

    if fits(most):
        return most
    if not fits(shortest):
        return None
    low, high = shortest, most
    for _ in range(STEPS):
        middle = (low + high) / 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
