"""How long sequences may grow before a job stops fitting.

Static micro-batches hold a fixed number of sequences. Sized for the longest possible ones, a job
can be far over the card and still run for days, until responses have grown. This tells where the
line is, so that neither case is called by the other's name.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import ceil

from tuner.memory.estimate import StepMemory, estimate
from tuner.workload import Padding, Phase, Workload

_GRID = 4096  # the limit is found to within this part of the longest sequence
# Below this share of the maximum length nobody is told that a job fits while its sequences are short. The
# recipes that verl documents to run, and that are over the card at full length, fit up to a third or a half.
SHORTEST_SHARE = 1 / 8


def _with_share(workload: Workload, share: float) -> Workload:
    batch = workload.batch
    return workload.with_batch(
        max_prompt_tokens=max(1, ceil(batch.max_prompt_tokens * share)),
        max_response_tokens=max(1, ceil(batch.max_response_tokens * share)),
    )


def length_decides(workload: Workload) -> bool:
    """Whether memory or time goes by how long sequences are: not where all are padded to the maximum."""
    return workload.rollout is not None or any(
        step_pass.engine.packed or step_pass.engine.padding is not Padding.MAXIMUM
        for step_pass in workload.passes()
    )


def padded_phases(workload: Workload) -> frozenset[Phase]:
    """The phases in which a mean length decides nothing, since sequences are padded to a longest one.

    However short sequences are on average, a micro-batch is as wide as the maximum, or as its longest
    sequence. The weight sync is among them where it finds the blocks that such an update has freed.

    Source: verl 0.5.0 ``workers/actor/dp_actor.py`` (``_forward_micro_batch`` without ``use_remove_padding``:
    the width of ``input_ids``), 0.9.1 ``workers/engine/fsdp/transformer_impl.py`` (``prepare_model_inputs``).
    """
    padded = {one.phase for one in workload.passes() if not one.engine.packed}
    finds_blocks = workload.sync is not None and not workload.weight_sync.empties_cache_first
    sync = {Phase.UPDATE_WEIGHTS} if finds_blocks and Phase.UPDATE_ACTOR in padded else set()
    return frozenset(padded | sync)


def _mean_decides(workload: Workload, *, surely: bool) -> bool:
    """Whether each phase that a mean length cannot make smaller fits as it is."""
    capacity, memory = workload.cluster.gpu.capacity_bytes, StepMemory(workload)
    phases = filter(None, map(memory.phase, padded_phases(workload)))
    return all((one.interval[1] if surely else one.peak_bytes) <= capacity for one in phases)


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
        even at ``shortest``, or in a phase whose sequences are padded: there no mean is what decides.
    """
    share = 1.0
    for workload in workloads:
        if not _mean_decides(workload, surely=surely):
            return None
        share_that_fits = _largest_share(workload, shortest, share, surely=surely)
        if share_that_fits is None:
            return None
        share = share_that_fits
    batch = workloads[0].batch
    return min(batch.reached_tokens, int(batch.sequence_tokens * share))


def _largest_share(workload: Workload, shortest: float, most: float, *, surely: bool) -> float | None:
    """The largest share of the maximum length, up to ``most``, that fits."""

    def share(step: int) -> float:
        return shortest + step * (most - shortest) / _GRID

    def shortened(step: int) -> Workload:
        return workload if share(step) == 1 else _with_share(workload, share(step))

    def judged_surely(step: int) -> tuple[bool, int]:
        estimated = estimate(shortened(step))
        return estimated.fits_for_certain(), estimated.high_bytes - estimated.capacity_bytes

    if surely:
        step = largest_that_fits(judged_surely, _GRID)
    else:
        over = _phases_over(shortened(_GRID))
        step = largest_that_fits(partial(_fits_with_excess, shortened, over), _GRID)
        if step is not None and step < _GRID and not estimate(shortened(step)).fits():
            # A phase is over with short sequences alone, so that all have to be asked at each length.
            step = largest_that_fits(partial(_fits_with_excess, shortened, None), _GRID)
    return None if step is None else most if step == _GRID else share(step)


def _phases_over(workload: Workload) -> tuple[Phase, ...] | None:
    """The phases that are over the card, which shorter sequences can bring below it; None where none is."""
    capacity = workload.cluster.gpu.capacity_bytes
    over = (
        phase_estimate.phase
        for phase_estimate in StepMemory(workload).phases()
        if phase_estimate.peak_bytes > capacity
    )
    return tuple(over) or None


def _fits_with_excess(
    shortened: Callable[[int], Workload], phases: Sequence[Phase] | None, step: int
) -> tuple[bool, int]:
    """Whether phases (all, if none is named) fit at a length, and by how many bytes the worst is over."""
    workload = shortened(step)
    memory = StepMemory(workload)
    named = memory.phases() if phases is None else map(memory.phase, phases)
    over = (
        max(phase_estimate.peak_bytes for phase_estimate in named if phase_estimate is not None)
        - workload.cluster.gpu.capacity_bytes
    )
    return over <= 0 and not memory.problems, over


def largest_that_fits(judge: Callable[[int], tuple[bool, int]], most: int, *, least: int = 0) -> int | None:
    """The largest number from ``least`` to ``most`` that fits; None where the least does not.

    Between two lengths memory is close to a straight line, which is followed; a guess that does not halve
    what is left is followed by a bisection.

    Args:
        judge: whether a number fits, and the bytes by which the worst phase is over the card.
        most: the largest number that is asked about.
        least: the smallest one.
    """
    low, high = least, most
    fits, over_high = judge(high)
    if fits:
        return high
    fits, over_low = judge(low)
    if not fits:
        return None
    guesses = True
    while high - low > 1:
        middle = (low + high) // 2
        if guesses and over_low < 0 < over_high:
            guess = low + (high - low) * -over_low // (over_high - over_low)
            middle = min(max(guess, low + 1), high - 1)
        left = high - low
        fits, over = judge(middle)
        if fits:
            low, over_low = middle, over
        else:
            high, over_high = middle, over
        guesses = not guesses or 2 * (high - low) <= left
    return low
