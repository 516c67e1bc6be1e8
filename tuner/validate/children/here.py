"""This machine: its GPUs, its versions, what is missing, and who else uses the GPUs.

torch is asked in a process of its own; NVML, which starts no CUDA, is asked here.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from tuner.extras import install
from tuner.language import _
from tuner.nvml import started
from tuner.units import GIB
from tuner.validate.children import processes, servers
from tuner.validate.children.call import Failed, Setup
from tuner.validate.children.devices import UNUSED_BYTES, Device, DevicesReport, processes_on, used_bytes
from tuner.validate.children.servers import ServedFunction
from tuner.validate.report.schema import Machine

_PROBE = ServedFunction.in_package(__package__, "worker.probe", "probe")
_PROBE_S = 120.0  # torch is imported for the first time


@dataclass(frozen=True, kw_only=True)
class Here:
    """This machine, as far as validation asks."""

    devices: tuple[Device, ...] = ()  # empty on a CPU
    versions: dict[str, str]
    missing: tuple[str, ...] = ()  # why nothing can run, each with what to do about it


def look(setup: Setup, workers: Iterable[ServedFunction] = ()) -> Here:
    """What is here; the GPUs are asked for where the setup's device is one.

    Args:
        setup: of the children that will be called.
        workers: that they will call, imported ahead where that pays.
    """
    cuda = setup.device == "cuda"
    if find_spec("torch") is None:
        return Here(
            versions={}, missing=(_("torch is not installed: {install}").format(install=install("gpu")),)
        )
    servers.prepare(setup.device, workers)
    report = processes.run(_PROBE, (), setup=Setup(device="cpu", log=setup.log), timeout_s=_PROBE_S, world=1)
    if isinstance(report, Failed):
        return Here(versions={}, missing=(_("torch cannot be used: {seen}").format(seen=report.message),))
    assert isinstance(report, DevicesReport)
    if not cuda:
        return Here(versions=report.versions)
    return Here(
        devices=report.devices,
        versions=_driver() | report.versions,
        missing=tuple(_missing(report)),
    )


def _missing(report: DevicesReport) -> Iterator[str]:
    if not report.built_for_cuda:
        torch = report.versions["torch"]
        yield _("torch {torch} is built without CUDA: install the build for this machine's driver").format(
            torch=torch
        )
    elif not report.devices:
        yield _(
            "torch sees no GPU: run this on a GPU node, with a driver and with CUDA_VISIBLE_DEVICES unset"
        )
    if find_spec("triton") is None:
        yield _("triton is not installed: {install}").format(install=install("gpu"))


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


def disturbances(here: Here, machine_now: Machine) -> Iterator[str]:
    """What makes figures of this machine doubtful, one sentence each."""
    if not here.devices:
        return
    names = {device.name for device in here.devices[: machine_now.devices]}
    if len(names) > 1:
        listed = ", ".join(sorted(names))
        yield _("The GPUs of this node differ ({listed}); the first one's name stands for all.").format(
            listed=listed
        )
    taken = machine_now.total_bytes - machine_now.free_bytes
    if machine_now.others:
        pids = ", ".join(str(process.pid) for process in machine_now.others)
        yield (
            _(
                "The GPU is in use by others (process {pids}), {taken:.1f} GiB of it: times are not "
                "those of an idle GPU, and less memory is free."
            ).format(pids=pids, taken=taken / GIB)
        )
    elif taken > UNUSED_BYTES:
        yield (
            _(
                "{taken:.1f} GiB of the GPU are in use by processes that the driver does not name, "
                "as in a container: times may not be those of an idle GPU, and less memory is free."
            ).format(taken=taken / GIB)
        )


def _driver() -> dict[str, str]:
    with started() as nvml:
        return {} if nvml is None else {"driver": str(nvml.nvmlSystemGetDriverVersion())}
