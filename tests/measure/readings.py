"""What a GPU's memory holds, as its driver and PyTorch's allocator say."""

import subprocess
from dataclasses import asdict, dataclass
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Bytes on one GPU at one moment; all 0 without one."""

    non_torch_bytes: int  # used on the device and not reserved by the allocator
    reserved_bytes: int
    allocated_bytes: int


class Log:
    """Readings of one process by the name of what it had just done."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []

    def read(self, step: str) -> None:
        self.steps.append({"step": step, **asdict(reading())})


def reading() -> Reading:
    """The present state of this process's GPU, once all work on it is done."""
    if not torch.cuda.is_available():
        return Reading(non_torch_bytes=0, reserved_bytes=0, allocated_bytes=0)
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    reserved = torch.cuda.memory_reserved()
    return Reading(
        non_torch_bytes=total - free - reserved,
        reserved_bytes=reserved,
        allocated_bytes=torch.cuda.memory_allocated(),
    )


def device() -> torch.device:
    """This process's GPU, or the processor where there is none."""
    return (
        torch.device("cuda", torch.cuda.current_device())
        if torch.cuda.is_available()
        else torch.device("cpu")
    )


def hardware() -> str:
    """The GPUs and their driver."""
    if not torch.cuda.is_available():
        return "no GPU (dry run)"
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    name, total, driver = (part.strip() for part in lines[0].split(","))
    return f"{len(lines)} x {name} ({total}), driver {driver}"


def used_by_all() -> list[int]:
    """MiB in use on every GPU, as nvidia-smi sees it: other processes too."""
    if not torch.cuda.is_available():
        return []
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line) for line in lines]
