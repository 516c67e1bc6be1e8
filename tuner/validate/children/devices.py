"""The GPUs of this machine: what torch sees of them, and what NVML, which starts no CUDA, says they hold."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tuner.nvml import started
from tuner.units import MIB
from tuner.validate.report.schema import OtherProcess

#: What the driver may count as used where there is no process; a context takes several times that.
UNUSED_BYTES = 64 * MIB
_SETTLED_S, _LOOK_S = 6.0, 0.25


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU that torch sees."""

    name: str
    total_bytes: int  # as CUDA hands it out
    uuid: str  # NVML's


@dataclass(frozen=True, kw_only=True)
class DevicesReport:
    """What torch says of this machine."""

    devices: tuple[Device, ...]
    built_for_cuda: bool
    versions: dict[str, str]


def used_bytes(uuid: str) -> int | None:
    """Memory of a GPU that processes use, all together; None where NVML does not say."""
    with started() as nvml:
        if nvml is None:
            return None
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            # The second version does not count what the driver keeps for itself.
            return int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
        except nvml.NVMLError:
            return None


def wait_for_memory(
    uuids: Sequence[str],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until processes that were ended just now have given their memory back, some seconds at most.

    An engine's own processes are killed with the one that started it, and nobody waits for them: the driver
    may still count tens of GB that are gone a moment later. Where others use a GPU, the wait ends in vain.
    """
    end = clock() + _SETTLED_S
    while clock() < end and any((used_bytes(uuid) or 0) > UNUSED_BYTES for uuid in uuids):
        sleep(_LOOK_S)


def driver_total_bytes(uuid: str) -> int | None:
    """Memory of a GPU with what the driver keeps for itself; None where NVML does not say."""
    with started() as nvml:
        if nvml is None:
            return None
        try:
            return int(nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByUUID(uuid)).total)
        except nvml.NVMLError:
            return None


def processes_on(uuid: str) -> tuple[OtherProcess, ...]:
    """Processes that use a GPU, this one left out."""
    with started() as nvml:
        if nvml is None:
            return ()
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except nvml.NVMLError:
            return ()
    return tuple(
        OtherProcess(pid=process.pid, used_bytes=process.usedGpuMemory)
        for process in running
        if process.pid != os.getpid()
    )
