"""How long sequences may grow before a job stops fitting.

Static micro-batches hold a fixed number of sequences. Sized for the longest possible ones, a job
can be far over the card and still run for days, until responses have grown. This tells where the
line is, so that neither case is called by the other's name.
"""

from math import ceil

from tuner.memory.estimate import estimate
from tuner.workload import Workload

STEPS = 12  # bisection: the limit is found to within 1/4096 of the longest sequence


def _with_share(workload: Workload, share: float) -> Workload:
    batch = workload.batch
    return workload.with_batch(
        max_prompt_tokens=max(1, ceil(batch.max_prompt_tokens * share)),
        max_response_tokens=max(1, ceil(batch.max_response_tokens * share)),
    )


def mean_tokens_that_fit(workload: Workload, *, shortest: float) -> int | None:
    """The largest mean sequence length with which every phase fits.

    Args:
        workload: the job; prompts and responses are shortened in proportion.
        shortest: the smallest share of the maximum length worth asking about.

    Returns:
        The mean number of tokens per sequence, at most the maximum; None when the job does not fit
        even at ``shortest``, so that length is not what decides.
    """
    if estimate(workload).fits():
        return workload.batch.sequence_tokens
    low, high = shortest, 1.0
    if not estimate(_with_share(workload, low)).fits():
        return None
    for _ in range(STEPS):
        middle = (low + high) / 2
        if estimate(_with_share(workload, middle)).fits():
            low = middle
        else:
            high = middle
    return int(workload.batch.sequence_tokens * low)
