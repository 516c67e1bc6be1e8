"""The probes by name, each in processes of its own."""

from collections.abc import Callable
from functools import partial
from typing import Any

from measure.ranks import in_processes
from measure.transients.buckets import probe_buckets
from measure.transients.saving import probe_gathered_optimizer, probe_saving

PROBES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "saving-fsdp1": partial(probe_saving, "fsdp1"),
    "saving-fsdp2": partial(probe_saving, "fsdp2"),
    "gathered-optimizer": probe_gathered_optimizer,
    "buckets": partial(probe_buckets, 2048),
}


def probe(name: str) -> list[dict[str, Any]]:
    """The cases of one probe, in this process."""
    return PROBES[name]()


def run_probe(name: str, ranks: int, port: int) -> dict[str, Any]:
    """One probe in processes of its own; what went wrong stands in the place of its cases."""
    cases = in_processes(probe, name, ranks=ranks, port=port, timeout_s=150, group=True)
    return {"probe": name, "gpus": ranks, "cases": cases}
