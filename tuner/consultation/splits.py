"""Every division of the GPUs into a pool that trains and one that generates, and the best of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tuner.enumeration import Enum
from tuner.trainers.placement import PoolSplit

_T = TypeVar("_T")


class WaitsFor(Enum):
    """The side of two pools that a step waits for."""

    TRAINING = "training"
    GENERATION = "generation"


def divisions(gpus_per_node: int, nodes: int) -> Iterator[tuple[PoolSplit, ...]]:
    """The divisions of a cluster as series, in each of which ever more GPUs train.

    Whole nodes go to one pool or to the other, or every node is divided alike: no other division is one of
    two pools with as many GPUs on each of their nodes.
    """
    whole = tuple(
        PoolSplit(
            training_nodes=training,
            training_gpus_per_node=gpus_per_node,
            generating_nodes=nodes - training,
            generating_gpus_per_node=gpus_per_node,
        )
        for training in range(1, nodes)
    )
    within = tuple(
        PoolSplit(
            training_nodes=nodes,
            training_gpus_per_node=training,
            generating_nodes=nodes,
            generating_gpus_per_node=gpus_per_node - training,
        )
        for training in range(1, gpus_per_node)
    )
    yield from (series for series in (whole, within) if series)


def looked_at(
    series: Sequence[PoolSplit], look: Callable[[PoolSplit], tuple[_T, WaitsFor | None]]
) -> Iterator[tuple[PoolSplit, _T]]:
    """The divisions of a series that may be the best, from its middle on, with what was seen of each.

    Where a step waits for training, fewer GPUs that train make it no shorter, and where it waits for
    generation, fewer that generate do not: these are not looked at.

    Args:
        series: in each of which ever more GPUs train.
        look: says what a division comes to, and what its step waits for; None where nothing fits.
    """
    pending = [(0, len(series))]
    while pending:
        low, high = pending.pop()
        if low >= high:
            continue
        middle = (low + high) // 2
        seen, waits = look(series[middle])
        yield series[middle], seen
        if waits is not WaitsFor.TRAINING:
            pending.append((low, middle))
        if waits is not WaitsFor.GENERATION:
            pending.append((middle + 1, high))
