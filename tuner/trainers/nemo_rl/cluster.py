"""How the GPUs of a job of NeMo-RL are shared out between training and generation.

Source: NeMo-RL v0.5.0 to v0.7.0 ``nemo_rl/algorithms/grpo.py`` (``setup``).
"""

from msgspec import Struct

from tuner.language import _
from tuner.trainers.settings_by_meaning import SettingsByMeaning


class GpuSplit(Struct, frozen=True, kw_only=True):
    """GPUs per node and nodes of the trainer, and those that generate where they are others."""

    gpus_per_node: int
    nodes: int
    colocated: bool
    own_gpus: int = 0  # that generate, where they are not the trainer's
    own_gpus_per_node: int = 0


def shares(source: SettingsByMeaning) -> GpuSplit:
    """Who has how many GPUs.

    With one node, generation is given some of its GPUs; with several, whole nodes.

    Raises:
        InputError: generation has GPUs of its own and nobody says how many, or it takes all of them.
    """
    gpus = source.integer("gpus_per_node", default=1)
    nodes = source.integer("nodes", default=1)
    generates = isinstance(source.settings.get("policy.generation"), dict)
    if not generates or source.flag("colocated", default=True):
        return GpuSplit(gpus_per_node=gpus, nodes=nodes, colocated=True)
    key = "own_gpus" if nodes == 1 else "own_nodes"
    taken = source.integer(key)
    if taken is None:
        raise source.error(key, _("generation has GPUs of its own, and nothing says how many"))
    if taken >= (gpus if nodes == 1 else nodes):
        raise source.error(
            key, _("generation takes {taken}, and nothing is left to train on").format(taken=taken)
        )
    if nodes == 1:
        return GpuSplit(
            gpus_per_node=gpus - taken, nodes=1, colocated=False, own_gpus=taken, own_gpus_per_node=taken
        )
    each = source.integer("own_gpus", default=gpus)
    return GpuSplit(
        gpus_per_node=gpus,
        nodes=nodes - taken,
        colocated=False,
        own_gpus=taken * each,
        own_gpus_per_node=each,
    )
