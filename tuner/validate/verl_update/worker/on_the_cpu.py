"""verl on a processor, for a run on tiny shapes: it knows accelerators only, from 0.8 on."""

from importlib.util import find_spec
from typing import Any

import torch

from tuner.validate.training.worker.verl_build import verl


class _NoCounts:
    """In the place of ``torch.cuda``: whatever is asked of it is nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _both_zero if name == "mem_get_info" else _zero


def _zero(*_: Any, **__: Any) -> int:
    return 0


def _both_zero(*_: Any, **__: Any) -> tuple[int, int]:
    return 0, 0


def run_on_the_cpu() -> None:
    """Make verl take the processor for its accelerator; before its platforms it does, and asks it for bytes.

    Source: verl 0.9.1 ``plugin/platform/platform_cuda.py``; 0.7.1 ``utils/device.py``.
    """
    if find_spec("verl.plugin") is None:
        for name in ("max_memory_allocated", "max_memory_reserved"):
            setattr(torch.cpu, name, _zero)
        return
    platform = verl("plugin.platform.platform_cuda").PlatformCUDA
    platform.device_name = "cpu"
    platform.device_module = _NoCounts()
    platform.current_device = lambda self: torch.device("cpu")
    platform.empty_cache = lambda self: None
    platform.is_available = lambda self: True
