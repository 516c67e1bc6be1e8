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
    store.set(_key(launch, launch.node), report)
    if launch.node > 0:
        return []  # what was set is sent; an answer may never come, the first node ends when it has all
    keys = [_key(launch, node) for node in range(launch.nodes)]
    return [_report(store, key, end - time.monotonic()) for key in keys]


def _key(launch: TorchrunProcess, node: int) -> str:
    """Where a node leaves its report of a turn: a store that torchrun keeps has those of earlier ones."""
    return f"tuner.validate/{launch.turn}/{node}"


def _report(store: TCPStore, key: str, left_s: float) -> str | None:
    try:
        store.wait([key], timedelta(seconds=max(1.0, left_s)))
        return store.get(key).decode()
    except DistStoreError:
        return None
