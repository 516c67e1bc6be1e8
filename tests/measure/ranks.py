"""Work in fresh processes, one for each GPU."""

import os
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import torch
import torch.distributed as dist

from tuner.lifetime import end_with_parent


def in_processes(
    work: Callable[[str], Any], name: str, *, ranks: int, port: int, timeout_s: float, group: bool = False
) -> Any:
    """What rank 0 gives back, or what went wrong in its place.

    Args:
        work: a function of an importable module, for a program's own is not found in a fresh process.
        name: its argument.
        ranks: processes, each with a GPU of its own where there are GPUs.
        port: of the ranks' rendezvous.
        timeout_s: how long to wait for rank 0.
        group: whether the ranks join a process group first.
    """
    spawn = get_context("spawn")
    results = spawn.Queue()
    processes = [
        spawn.Process(target=_work, args=(work, name, rank, ranks, port, group, results))
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    try:
        outcome = results.get(timeout=timeout_s)
    except Exception as error:
        outcome = repr(error)
    for process in processes:
        process.join(15)
        process.kill()
    return outcome


def _work(
    work: Callable[[str], Any], name: str, rank: int, ranks: int, port: int, group: bool, results: Any
) -> None:
    end_with_parent()
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }
    try:
        gpu = torch.cuda.is_available()
        if gpu:
            torch.cuda.set_device(rank)
        if group:
            torch.set_num_threads(1)
            dist.init_process_group("cpu:gloo,cuda:nccl" if gpu else "gloo")
        outcome = work(name)
    except Exception:
        outcome = traceback.format_exc()
    if rank == 0:
        results.put(outcome)
        results.close()
        results.join_thread()
    os._exit(0)
