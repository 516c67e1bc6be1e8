"""Numbers that the host asks of the device without waiting: work launched meanwhile hides the transfer."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class AsynchronousRead:
    """Numbers of the device, on their way to the host."""

    on_host: Tensor  # of no meaning before the event
    asked: torch.cuda.Event | None  # None: they are there

    def numbers(self) -> list[float]:
        """The numbers; waits until what was launched before they were asked for has run."""
        if self.asked is not None:
            self.asked.synchronize()
        return [float(number) for number in self.on_host.tolist()]


def ask(on_device: Tensor) -> AsynchronousRead:
    """Ask for the numbers of a vector as they are at this point of the current stream."""
    if not on_device.is_cuda:
        return AsynchronousRead(on_host=on_device, asked=None)
    on_host = torch.empty_like(on_device, device="cpu", pin_memory=True).copy_(on_device, non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(on_device.device))
    return AsynchronousRead(on_host=on_host, asked=event)
