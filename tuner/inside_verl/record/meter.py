"""Peaks of PyTorch's memory counters for one phase, while verl goes on reading those since its process began.

The counters have one peak, and resetting it for a phase would change what verl logs as
``perf/max_memory_allocated_gb``. So the functions that read and reset it are replaced in ``torch.cuda``: what
verl reads is the highest of what was there before our resets and since.
"""

import os
from contextlib import ExitStack
from typing import Any

from msgspec import Struct

from tuner.nvml import started

_READERS = ("max_memory_allocated", "max_memory_reserved")
_RESETS = ("reset_peak_memory_stats", "reset_max_memory_allocated")


class CardReading(Struct, frozen=True, kw_only=True):
    """Memory of this process's card in bytes; the peaks are those since :meth:`Meter.begin`."""

    allocated: int
    reserved: int
    card: int  # held by all processes now
    process: int | None  # held by this one now; None where the driver does not say


class CudaMeter:
    """The counters of the current CUDA device.

    Args:
        cuda: ``torch.cuda``, or what stands in for it.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._read = {name: getattr(cuda, name) for name in _READERS}
        self._reset = cuda.reset_peak_memory_stats
        self._driver = _Driver()
        self._before = dict.fromkeys(_READERS, 0)  # peaks before our last reset, since verl's last one
        self._phase = dict.fromkeys(_READERS, 0)  # peaks of the phase before a reset of verl's within it
        for name in _READERS:
            setattr(cuda, name, self._reader(name))
        for name in _RESETS:
            if hasattr(cuda, name):
                setattr(cuda, name, self._resetter(getattr(cuda, name)))

    def begin(self) -> None:
        """Begin a phase: from here on its peaks count."""
        for name in _READERS:
            self._before[name] = max(self._before[name], self._read[name]())
            self._phase[name] = 0
        self._reset()

    def read(self) -> CardReading:
        """The peaks of the phase, and what is held now; waits for the kernels that were started."""
        self._cuda.synchronize()
        allocated, reserved = (max(self._phase[name], self._read[name]()) for name in _READERS)
        held = self._driver.held_bytes(self._card_id())
        return CardReading(allocated=allocated, reserved=reserved, card=self.card(), process=held)

    def card(self) -> int:
        """What all processes hold of the card now, in bytes."""
        free, total = self._cuda.mem_get_info()
        return int(total - free)

    def name_and_size(self) -> tuple[str, int]:
        """The card's name, and its memory in bytes."""
        properties = self._cuda.get_device_properties(self._cuda.current_device())
        return str(properties.name), int(properties.total_memory)

    def _reader(self, name: str) -> Any:
        read = self._read[name]

        def highest(device: Any = None) -> int:
            return int(max(read(device), self._before[name]) if self._is_ours(device) else read(device))

        highest.__wrapped__ = read  # type: ignore[attr-defined]
        return highest

    def _resetter(self, reset: Any) -> Any:
        def forgetting(device: Any = None) -> None:
            if self._is_ours(device):
                for name in _READERS:
                    self._phase[name] = max(self._phase[name], self._read[name]())
                    self._before[name] = 0
            reset(device)

        forgetting.__wrapped__ = reset  # type: ignore[attr-defined]
        return forgetting

    def _is_ours(self, device: Any) -> bool:
        if device is None:
            return True
        index = device if isinstance(device, int) else getattr(device, "index", None)
        return index in (None, self._cuda.current_device())

    def _card_id(self) -> str | None:
        uuid = getattr(self._cuda.get_device_properties(self._cuda.current_device()), "uuid", None)
        return None if uuid is None else f"GPU-{uuid}"


def meter() -> CudaMeter | None:
    """The counters of this process's card; None without PyTorch or a CUDA device."""
    try:
        import torch
    except ImportError:
        return None
    return CudaMeter(torch.cuda) if torch.cuda.is_available() else None


class _Driver:
    """What the driver's library says of this process; it is asked at every phase, and started once."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._nvml: Any = None
        self._begun = False

    def held_bytes(self, card: str | None) -> int | None:
        """Bytes of a card that this process holds; None where a container numbers processes itself."""
        if card is None:
            return None
        if not self._begun:
            self._begun = True
            self._nvml = self._open.enter_context(started())
        if self._nvml is None:
            return None
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(card)
            running = self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except self._nvml.NVMLError:
            return None
        own = (process.usedGpuMemory for process in running if process.pid == os.getpid())
        return next((int(held) for held in own if held is not None), None)
