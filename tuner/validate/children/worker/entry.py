"""The first thing that runs in a child: device, memory limit, process group, call, and what came of it."""

import os

# What may ask for CUDA while it is imported must not start it in the server that children are forked from.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
os.environ.setdefault("TORCH_WARM_POOL", "0")  # its thread would not be there in a fork of the server

import traceback
from datetime import timedelta
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist

from tuner.validate.children.call import CallFailure, Failed, GroupRank, Setup
from tuner.validate.children.devices import used_bytes
from tuner.validate.children.servers import ServedFunction

_MOST_THREADS = 16  # that page-lock host memory


def outcome(worker: ServedFunction, arguments: tuple[Any, ...], setup: Setup, place: GroupRank) -> Any:
    """The worker's result, or :class:`Failed` with the first line of the error."""
    try:
        device = _device(setup, place)
        return getattr(import_module(worker.module), worker.function)(*arguments, device=device)
    except Exception as error:
        traceback.print_exc()
        first = next(iter(str(error).splitlines()), "")
        if _out_of_memory(error):
            return Failed(why=CallFailure.OUT_OF_MEMORY, message=first or "host memory")
        return Failed(why=CallFailure.ERROR, message=f"{type(error).__name__}: {first}")


def _device(setup: Setup, place: GroupRank) -> str:
    """The process's device, ready: limited, and joined with the others."""
    cuda = setup.device == "cuda"
    device = f"cuda:{place.rank}" if cuda else "cpu"
    if cuda:
        used = used_bytes(setup.uuids[place.rank]) if place.rank < len(setup.uuids) else None
        torch.cuda.set_device(place.rank)
        _lock_pages_together()
        if setup.memory_limit_bytes is not None:
            _limit_memory(place.rank, setup.memory_limit_bytes, used or 0)
    if place.world > 1:
        dist.init_process_group(
            "nccl" if cuda else "gloo",
            rank=place.rank,
            world_size=place.world,
            timeout=timedelta(seconds=place.timeout_s),
        )
    return device


def _lock_pages_together() -> None:
    """Page-lock host memory by several threads: states of many GB go there, and one alone takes longer."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    ours = f"pinned_use_cuda_host_register:True,pinned_num_register_threads:{threads}"
    configured = os.environ.get("PYTORCH_CUDA_ALLOC_CONF")  # stands, where it says something else
    torch.cuda.memory._set_allocator_settings(f"{ours},{configured}" if configured else ours)


def device_id(index: int) -> str:
    """NVML's name for a device of this process."""
    return f"GPU-{torch.cuda.get_device_properties(index).uuid}"


def _limit_memory(index: int, limit: int, used_before: int) -> None:
    """Leave the allocator what the limit leaves beside the context."""
    torch.empty(1, device=index)  # the context is there from now on
    free, total = torch.cuda.mem_get_info(index)
    held = torch.cuda.memory_reserved(index)
    context = max(0, total - free - held - used_before)
    if limit <= context:
        raise torch.OutOfMemoryError(f"the context alone takes {context} bytes of the limit of {limit}")
    torch.cuda.set_per_process_memory_fraction(min(1.0, (limit - context) / total), index)


def _out_of_memory(error: Exception) -> bool:
    # Out of memory outside the allocator (a context, a communicator) comes as another error.
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "out of memory" in str(error)
