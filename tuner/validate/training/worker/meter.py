"""What PyTorch's allocator and the driver say of the memory of this process's GPU."""

import gc
import time

import torch

from tuner.validate.training.settings import Stage

_NONE = dict.fromkeys(
    ("peak_allocated_bytes", "peak_requested_bytes", "peak_reserved_bytes", "non_torch_bytes")
)


class Meter:
    """Readings of one device between two resets; None on a CPU, whose memory nothing counts."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._peaks = (0, 0, 0)  # allocated, requested, reserved
        self.stages: dict[Stage, int] = {}

    def reset(self) -> None:
        """Empty the allocator's cache and begin to watch for the peak."""
        gc.collect()
        self._peaks, self.stages = (0, 0, 0), {}
        if self._cuda:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def end_of(self, stage: Stage) -> None:
        """A stage of the pass ends here: note its peak of allocated bytes, the largest of its name."""
        if self._cuda:
            allocated = self._collect()
            self.stages[stage] = max(allocated, self.stages.get(stage, 0))

    def _collect(self) -> int:
        now = (
            torch.cuda.max_memory_allocated(),
            torch.cuda.memory_stats()["requested_bytes.all.peak"],
            torch.cuda.max_memory_reserved(),
        )
        first, second, third = (max(pair) for pair in zip(self._peaks, now, strict=True))
        self._peaks = (first, second, third)
        torch.cuda.reset_peak_memory_stats()
        return now[0]

    def now(self) -> float:
        """Seconds on a clock, once everything that was begun on the device is done."""
        if self._cuda:
            torch.cuda.synchronize()
        return time.perf_counter()

    def allocated(self) -> int | None:
        """Bytes of tensors now."""
        return torch.cuda.memory_allocated() if self._cuda else None

    def peaks(self) -> dict[str, int | None]:
        """Figures since the reset, by their names in a measured pass."""
        if not self._cuda:
            return dict(_NONE)
        torch.cuda.synchronize()
        self._collect()
        free, total = torch.cuda.mem_get_info()
        others = max(0, total - free - torch.cuda.memory_reserved())
        return dict(zip(_NONE, (*self._peaks, others), strict=True))
