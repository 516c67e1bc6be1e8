"""The keys by which verl is told how many GPUs it takes."""

from collections.abc import Iterator

from tuner.inputs.override_syntax import override
from tuner.inputs.settings import Settings
from tuner.override_text import ADDS
from tuner.trainers.verl.read import cluster_size

_SIZES = ("trainer.n_gpus_per_node", "trainer.nnodes")


def cluster_overrides(settings: Settings, gpus_per_node: int, nodes: int) -> tuple[str, ...]:
    """What has verl take so many GPUs of so many nodes.

    Nothing where it does so already, and where other keys say how many the trainer gets.
    """
    own = settings.integer(_SIZES[0], default=8), settings.integer(_SIZES[1], default=1)
    if own != cluster_size(settings):
        return ()
    return tuple(_changed(settings, own, (gpus_per_node, nodes)))


def _changed(settings: Settings, own: tuple[int, int], wanted: tuple[int, int]) -> Iterator[str]:
    for key, before, after in zip(_SIZES, own, wanted, strict=True):
        if before != after:
            yield override(key, after, "" if settings.takes(key) else ADDS)
