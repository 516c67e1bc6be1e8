"""Functions that tests have called in processes of their own."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

kept: list[object] = []


def places(*, device: str) -> list[tuple[str, str, str]]:
    """Of every rank, gathered."""
    own = (device, os.environ["RANK"], os.environ["WORLD_SIZE"])
    if os.environ["WORLD_SIZE"] == "1":
        return [own]
    found: list[tuple[str, str, str]] = [own] * dist.get_world_size()
    dist.all_gather_object(found, own)
    return found


def double(value: int, *, device: str) -> int:
    print("this must not be seen")
    return 2 * value


def heads_with_no_other_package(work: object, *, device: str) -> object:
    """The output head's worker, where nothing may look for other packages' kernels."""
    os.environ["TRITON_INTERPRET"] = "1"
    head_choice: Any = import_module("tuner.validate.head.worker.choice")

    def find(*_: object) -> None:
        raise AssertionError("another package was looked for")

    head_choice.find_rivals = find
    return import_module("tuner.validate.head.worker.measure").measure(work, device=device)


def loaded(names: list[str], *, device: str) -> list[bool]:
    """Whether the server had each of the modules before the call."""
    return [name in sys.modules for name in names]


def locks(*, device: str) -> int:
    """Leaves a lock, as libraries with progress bars do."""
    kept.append(multiprocessing.RLock())
    return len(kept)


def large(count: int, *, device: str) -> bytes:
    return b"x" * count


def out_of_memory(*, device: str) -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.\nmore")


def host_out_of_memory(*, device: str) -> None:
    raise MemoryError


def mistaken(*, device: str) -> None:
    raise ValueError("a mistake\nsecond line")


def unsendable(*, device: str) -> object:
    return lambda: None


def killed(*, device: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def ended(*, device: str) -> None:
    os._exit(7)


def one_fails(*, device: str) -> None:
    """Rank 1 fails while rank 0 waits for it."""
    if os.environ["RANK"] == "1":
        raise torch.OutOfMemoryError("CUDA out of memory on rank 1")
    dist.barrier()


def waits_with_a_child(file: str, *, device: str) -> None:
    """Writes its own number and that of a process it starts, and never ends."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(f"{file}.part").write_text(f"{os.getpid()} {child.pid}")
    Path(f"{file}.part").rename(file)
    time.sleep(600)


def allocates(count: int, *, device: str) -> int:
    """Bytes of the GPU that are used while ``count`` more are allocated."""
    taken = torch.empty(count, dtype=torch.uint8, device=device)
    free, total = torch.cuda.mem_get_info(device)
    assert taken.numel() == count
    return total - free
