"""This machine: its GPUs, its versions, what is missing, and who else uses the GPUs.

torch is asked in a process of its own; NVML, which starts no CUDA, is asked here.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from tuner.units import GIB, MIB
from tuner.validate.children import processes, servers
from tuner.validate.report.schema import Machine, OtherProcess
from tuner.validate.session import Failed

_PROBE = "tuner.validate.children.worker.probe:probe"
_PROBE_S = 120.0  # torch is imported for the first time
#: What the driver may count as used where there is no process; a context takes several times that.
UNUSED_BYTES = 64 * MIB


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU that torch sees."""

    name: str
    total_bytes: int  # as CUDA hands it out
    uuid: str  # NVML's


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What torch says of this machine."""

    devices: tuple[Device, ...]
    built_for_cuda: bool
    versions: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Here:
    """This machine, as far as validation asks."""

    devices: tuple[Device, ...] = ()  # empty on a CPU
    versions: dict[str, str]
    missing: tuple[str, ...] = ()  # why nothing can run, each with what to do about it


def look(setup: processes.Setup) -> Here:
    """What is here; the GPUs are asked for where the setup's device is one."""
    cuda = setup.device == "cuda"
    if find_spec("torch") is None:
        return Here(versions={}, missing=("torch is not installed: pip install 'tuner[gpu]'",))
    servers.prepare(setup.device)
    seen = processes.run(
        _PROBE, (), setup=processes.Setup(device="cpu", log=setup.log), timeout_s=_PROBE_S, world=1
    )
    if isinstance(seen, Failed):
        return Here(versions={}, missing=(f"torch cannot be used: {seen.message}",))
    assert isinstance(seen, Seen)
    if not cuda:
        return Here(versions=seen.versions)
    return Here(
        devices=seen.devices,
        versions=_driver() | seen.versions,
        missing=tuple(_missing(seen)),
    )


def _missing(seen: Seen) -> Iterator[str]:
    if not seen.built_for_cuda:
        torch = seen.versions["torch"]
        yield f"torch {torch} is built without CUDA: install the build for this machine's driver"
    elif not seen.devices:
        yield "torch sees no GPU: run this on a GPU node, with a driver and with CUDA_VISIBLE_DEVICES unset"
    if find_spec("triton") is None:
        yield "triton is not installed: pip install 'tuner[gpu]'"


def machine(here: Here, *, count: int, profile: str | None) -> Machine:
    """The report's part about this machine, as it is now.

    Args:
        here: what is here.
        count: GPUs, or processes on a CPU, that take part.
        profile: the hardware profile that the predictions use.
    """
    if not here.devices:
        page = os.sysconf("SC_PAGE_SIZE")
        return Machine(
            device="cpu",
            devices=count,
            profile=profile,
            total_bytes=os.sysconf("SC_PHYS_PAGES") * page,
            free_bytes=os.sysconf("SC_AVPHYS_PAGES") * page,
            versions=here.versions,
        )
    used = here.devices[:count]
    total = min(device.total_bytes for device in used)
    taken = max(used_bytes(device.uuid) or 0 for device in used)
    others = {process.pid: process for device in used for process in processes_on(device.uuid)}
    return Machine(
        device=used[0].name,
        devices=count,
        profile=profile,
        total_bytes=total,
        free_bytes=max(0, total - taken),
        others=tuple(others.values()),
        versions=here.versions,
    )


def disturbances(here: Here, found: Machine) -> Iterator[str]:
    """What makes figures of this machine doubtful, one sentence each."""
    if not here.devices:
        return
    names = {device.name for device in here.devices[: found.devices]}
    if len(names) > 1:
        listed = ", ".join(sorted(names))
        yield f"The GPUs of this node differ ({listed}); the first one's name stands for all."
    taken = found.total_bytes - found.free_bytes
    if found.others:
        pids = ", ".join(str(process.pid) for process in found.others)
        yield (
            f"The GPU is in use by others (process {pids}), {taken / GIB:.1f} GiB of it: "
            "times are not those of an idle GPU, and less memory is free."
        )
    elif taken > UNUSED_BYTES:
        yield (
            f"{taken / GIB:.1f} GiB of the GPU are in use by processes that the driver does not name, as in "
            "a container: times may not be those of an idle GPU, and less memory is free."
        )


def used_bytes(uuid: str) -> int | None:
    """Memory of a GPU that processes use, all together; None where NVML does not say."""
    with _nvml() as nvml:
        if nvml is None:
            return None
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            # The second version does not count what the driver keeps for itself.
            return int(nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used)
        except nvml.NVMLError:
            return None


def driver_total_bytes(uuid: str) -> int | None:
    """Memory of a GPU with what the driver keeps for itself; None where NVML does not say."""
    with _nvml() as nvml:
        if nvml is None:
            return None
        try:
            return int(nvml.nvmlDeviceGetMemoryInfo(nvml.nvmlDeviceGetHandleByUUID(uuid)).total)
        except nvml.NVMLError:
            return None


def processes_on(uuid: str) -> tuple[OtherProcess, ...]:
    """Processes that use a GPU, this one left out."""
    with _nvml() as nvml:
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


def _driver() -> dict[str, str]:
    with _nvml() as nvml:
        return {} if nvml is None else {"driver": str(nvml.nvmlSystemGetDriverVersion())}


@contextmanager
def _nvml() -> Iterator[Any]:
    """The module, started; None where there is no driver."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield None
        return
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()
