"""Axes of the passes: how many tokens or sequences a micro-batch brings to a GPU."""

from collections.abc import Iterator
from math import ceil

from msgspec.structs import replace

from tuner.batching import divisors
from tuner.plan.axes import Axis, axis
from tuner.rules.passes import Site, all_passes
from tuner.workload import Batching, Workload

_MULTIPLES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of the longest sequence
_SHARES = (2, 4, 8)  # of ranks that share one
_MOST_SEQUENCES = 128  # of a micro-batch of a fixed size


def pass_axes(workload: Workload, *, held: bool) -> Iterator[Axis]:
    """The sizes of every pass.

    Args:
        workload: the job.
        held: whether how a trained pass is cut decides what is learned: those stay as they are then.
    """
    for site in all_passes(workload):
        if not (held and site.step_pass.training):
            yield axis(f"batch-of-{site.phase.value}", workload, _sizes(workload, site))


def _sizes(workload: Workload, site: Site) -> Iterator[tuple[str, Workload]]:
    batching = site.one_pass.batching
    if not batching.dynamic:
        for size in divisors(_most_of_rank(workload, site)):
            if size % batching.group_sequences == 0 and size <= _MOST_SEQUENCES:
                other = replace(batching, micro_batch_sequences=size)
                yield f"{size} sequences", _with(workload, site, other)
    if batching.dynamic or _may_be_filled(workload, site):
        for tokens in _budgets(workload):
            yield (
                f"{tokens} tokens",
                _with(workload, site, replace(batching, dynamic=True, token_budget=tokens)),
            )


def _most_of_rank(workload: Workload, site: Site) -> int:
    """Sequences that one rank has in a pass at most: where all GPUs of a node share each of them."""
    sequences, parallel = site.sequences(workload), site.engine.parallel
    ranks = min(parallel.data, workload.cluster.gpus_per_node)
    return sequences * ranks


def _may_be_filled(workload: Workload, site: Site) -> bool:
    """Whether a pass of fixed sizes may take a budget of tokens without another loss or a refusal."""
    images = workload.batch.images
    allowed = not workload.batch.budgets_scale_loss and (images is None or images.in_budgets)
    return allowed and site.engine.packable


def _budgets(workload: Workload) -> list[int]:
    """Budgets of whole longest sequences, and of the shares that ranks have of one."""
    longest = workload.batch.sequence_tokens
    gpus = workload.actor.engine.parallel.gpus
    shares = (ceil(longest / ranks) for ranks in _SHARES if gpus % ranks == 0)
    whole = (longest * multiple for multiple in _MULTIPLES if multiple <= max(1, workload.batch.sequences))
    return sorted({*shares, *whole})


def _with(workload: Workload, site: Site, batching: Batching) -> Workload:
    return site.put(workload, replace(site.one_pass, batching=batching))
