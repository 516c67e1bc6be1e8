"""NVML, the library by which NVIDIA's driver tells what GPUs are there and what they hold, without CUDA."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_DEVICES = ("/dev/nvidiactl", "/dev/dxg")  # Linux, Windows Subsystem for Linux


@contextmanager
def started() -> Iterator[Any]:
    """``pynvml``, ready to be asked; None where there is no driver. Errors of questions are the caller's."""
    pynvml = _started()
    try:
        yield pynvml
    finally:
        if pynvml is not None:
            pynvml.nvmlShutdown()


def _started() -> Any:
    # Importing pynvml takes longer than all the rest of a short run, so a machine without driver skips it.
    if os.name == "posix" and not any(map(os.path.exists, _DEVICES)):
        return None
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:  # no driver or no permission: as if there were no GPU
        return None
    return pynvml
