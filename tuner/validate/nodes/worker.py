"""Reports of several nodes, handed to the first one through a store."""

import time
from datetime import timedelta

from torch.distributed import DistStoreError, TCPStore  # type: ignore[attr-defined]

from tuner.validate.nodes.torchrun import TorchrunProcess


def share(launch: TorchrunProcess, report: str, wait_s: float, *, device: str) -> list[str | None]:
    """Leave a report; on the first node wait for all, None for a node that leaves none in time."""
    end = time.monotonic() + wait_s
    store = TCPStore(
        launch.address,
        launch.port,
        is_master=launch.node == 0 and not launch.hosted,
        wait_for_workers=False,
        timeout=timedelta(seconds=wait_s),
    )
    store.set(_key(launch.node), report)
    if launch.node > 0:
        return []  # what was set is sent; an answer may never come, the first node ends when it has all
    return [_report(store, node, end - time.monotonic()) for node in range(launch.nodes)]


def _key(node: int) -> str:
    return f"tuner.validate/{node}"


def _report(store: TCPStore, node: int, left_s: float) -> str | None:
    try:
        store.wait([_key(node)], timedelta(seconds=max(1.0, left_s)))
        return store.get(_key(node)).decode()
    except DistStoreError:
        return None
