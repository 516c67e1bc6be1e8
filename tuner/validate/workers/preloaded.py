"""What parts import on a GPU, loaded once in the server: a child that is forked from it has it all.

Without it every child spends some 10 seconds on imports. Not for a CPU: what runs Triton's interpreter must
say so before anything imports Triton.
"""

import ctypes
from contextlib import suppress
from importlib import import_module
from pathlib import Path

_NAMES = (
    "tuner.validate.workers.entry",  # first: it sees to it that nothing here starts CUDA
    "transformers.models.auto.modeling_auto",
    "torch._inductor.compile_fx",
    "tuner.kernels.ops",
    "tuner.validate.workers.output_head",
    "tuner.validate.workers.training",
    "tuner.validate.workers.rollout",
)


def _driver_is_here() -> bool:
    """Whether a GPU's driver is installed. Asking torch would load CUDA in a process that must not."""
    with suppress(OSError):
        ctypes.CDLL("libcuda.so.1")
        return True
    return Path("/dev/kfd").exists()  # AMD's


if _driver_is_here():  # else it is said at once that nothing can run here
    for _name in _NAMES:
        with suppress(ImportError):  # the part that needs it says what is missing
            import_module(_name)
