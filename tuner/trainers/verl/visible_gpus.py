"""The GPUs that a launch of PPO shows to Ray, where no key says how many a node has."""

from collections.abc import Collection

from tuner.inputs.overrides import Override, OverrideKind
from tuner.inputs.tree import Path, split_key
from tuner.inputs.user_input import Count, Processes

_GPUS = "trainer.n_gpus_per_node"
_APART = "rollout"  # the section of GPUs that only generate, which a node's number does not tell apart


def visible_gpus(processes: Processes | None, keys: Collection[Path]) -> Count | None:
    """The GPUs of a node that the launch shows; None where it does not say, or a key does.

    Ray counts the devices that it sees, and verl stops where it asks for more of them (0.9.1
    single_controller/ray/base.py:241).

    Args:
        processes: of the launch.
        keys: those that the user sets.
    """
    if processes is None or split_key(_GPUS) in keys or any(path[0] == _APART for path in keys):
        return None
    return processes.visible


def shown_gpus(processes: Processes | None) -> Count | None:
    """The GPUs that a launch shows to the Ray that its program starts; None where it shows all, or none is.

    A Ray that the script starts, and one that takes the job, have the devices of their own start.
    """
    return None if processes is None or processes.ray_apart else processes.visible


def override_of(count: Count) -> Override:
    """The number as an override of the key that stands for it."""
    return Override(
        key=_GPUS,
        package=None,
        kind=OverrideKind.FORCE_ADD,
        value=count.value,
        text=count.text,
        location=count.location,
    )
