"""What following a change does to the numbers of the training run, under the release that runs it."""

from collections.abc import Callable, Collection, Iterator

from tuner.findings import Finding, Numerics
from tuner.workload import Workload

_UNTOUCHED = frozenset((Numerics.EXACT, Numerics.REORDERED))


def nowhere() -> bool:
    """Whether another release weighs tokens otherwise: never, where there is none that a job may be of."""
    return False


def numerics(
    finding: Finding, before: Workload, after: Workload | None, *, elsewhere: Callable[[], bool] = nowhere
) -> Numerics:
    """The effect of a finding's change on the training.

    A loss that every micro-batch averages over its own tokens weights them by how sequences are cut into
    micro-batches, so another cut is another gradient.

    Args:
        finding: whose change it is.
        before: the job without it.
        after: the job with it; None where it changes nothing that is modelled.
        elsewhere: whether another release that the job may be of averages over micro-batches.
    """
    own = finding.numerics
    if own is Numerics.CHANGED or after is None:
        return own
    if after.batch != before.batch and not after.validates_only:
        return Numerics.CHANGED
    if _rounds(after) and not _rounds(before):
        return Numerics.CHANGED
    return own if weighs_alike(before, after, elsewhere=elsewhere) else Numerics.REWEIGHTED


def weighs_alike(before: Workload, after: Workload, *, elsewhere: Callable[[], bool] = nowhere) -> bool:
    """Whether tokens weigh as much in the loss: sequences are cut alike where the cut decides that."""
    return not (weighs_by_cut(before) or elsewhere()) or _cut_alike(before, after)


def weighs_by_cut(workload: Workload) -> bool:
    """Whether what a token weighs in the loss depends on how sequences are cut into micro-batches."""
    batch = workload.batch
    return batch.loss_averages_micro_batches or batch.budgets_scale_loss


def scales_gradients(before: Workload, after: Workload) -> bool:
    """Whether a change makes gradients larger or smaller, because nothing divides by the micro-batches."""
    return before.batch.budgets_scale_loss and not _cut_alike(before, after)


def _cut_alike(before: Workload, after: Workload) -> bool:
    return list(_cuts(before)) == list(_cuts(after))


def _rounds(workload: Workload) -> bool:
    """Whether log-probabilities lose the bits that the ratio of the loss is made of."""
    head = workload.actor.head
    return head.kind in head.rounding


def is_allowed(effect: Numerics, allowed: Collection[Numerics]) -> bool:
    """Whether a change with this effect may be pasted without a decision about the training."""
    return effect in _UNTOUCHED or effect in allowed


def _cuts(workload: Workload) -> Iterator[tuple[int, bool, int]]:
    """How the trained passes cut their sequences: ranks that share them, and what a micro-batch takes."""
    for step_pass in workload.passes():
        if step_pass.training:
            batching = step_pass.batching
            size = batching.token_budget if batching.dynamic else batching.micro_batch_sequences
            yield step_pass.engine.parallel.data, batching.dynamic, size
