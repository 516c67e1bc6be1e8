"""The probes by name with the GPUs that they take, each in processes of its own."""

import os
from collections.abc import Callable
from typing import Any

from measure.overhead.graphs import capture_graphs
from measure.overhead.probes import probe_communicators, probe_kv_cache, probe_process
from measure.ranks import in_processes
from measure.readings import used_by_all

PROBES: dict[str, tuple[int, Callable[[], list[dict[str, Any]]]]] = {
    "process": (1, probe_process),
    "communicators-1": (1, probe_communicators),
    "communicators-2": (2, probe_communicators),
    "communicators-4": (4, probe_communicators),
    "kv-cache": (1, probe_kv_cache),
    "cuda-graphs-qwen2.5-0.5b": (1, capture_graphs("Qwen/Qwen2.5-0.5B")),
    "cuda-graphs-qwen2.5-7b": (1, capture_graphs("Qwen/Qwen2.5-7B")),
}


def probe(name: str) -> list[dict[str, Any]]:
    """The steps of one probe, in this process."""
    return PROBES[name][1]()


def run_probe(name: str, port: int) -> dict[str, Any]:
    """One probe in processes of its own; what went wrong stands in the place of its steps."""
    ranks = PROBES[name][0]
    before = used_by_all()
    steps = in_processes(probe, name, ranks=ranks, port=port, timeout_s=100)
    nccl = {key: value for key, value in sorted(os.environ.items()) if key.startswith("NCCL_")}
    return {
        "probe": name,
        "gpus": ranks,
        "used_before_mib": before,
        "environment": nccl,
        "steps": steps,
    }
