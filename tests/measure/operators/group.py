"""The process group that a measurement runs in, and seconds on the host that all of its ranks agree on."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from measure.operators.shapes import synchronize
from torch._C._distributed_c10d import HashStore

_FEWEST = 4  # repetitions


@contextmanager
def joined(device: str) -> Iterator[int]:
    """A group of the processes that torchrun started, or of this one alone; gives their number.

    Each process takes the GPU of its local rank.
    """
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = device == "cuda"
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
    if ranks > 1:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1)
    try:
        yield ranks
        _together()  # a rank that leaves early breaks the others' connections
    finally:
        dist.destroy_process_group()


def host_seconds_of(operation: Callable[[], object], *, least: float) -> float:
    """Mean seconds of an operation that the host is slower with than the GPU; the slowest rank's.

    It runs again and again for ``least`` seconds, as often on every rank, after two runs unseen. Nothing
    waits for the GPU between two runs.
    """
    for _ in range(2):
        operation()
    _together()
    start = time.perf_counter()
    operation()
    synchronize()
    elapsed = time.perf_counter() - start
    times = int(_agreed(max(_FEWEST, least / max(elapsed, 1e-5)), dist.ReduceOp.MIN))
    _together()
    start = time.perf_counter()
    for _ in range(times):
        operation()
    synchronize()
    return slowest((time.perf_counter() - start) / times)


def slowest(seconds: float) -> float:
    """Seconds of the rank that takes the most."""
    return _agreed(seconds, dist.ReduceOp.MAX)


def _together() -> None:
    synchronize()
    _agreed(0.0, dist.ReduceOp.MAX)


def _agreed(value: float, operation: dist.ReduceOp.RedOpType) -> float:
    """The least or the largest value of all ranks, exchanged between their hosts."""
    one = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(one, operation)
    return one.item()
