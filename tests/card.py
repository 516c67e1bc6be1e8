"""One GPU for the tests of several processes.

A test marked ``gpu`` works at real sizes and reads how much memory is free: it has the GPU to itself. Other
tests on the GPU are small, and any number of them run side by side, but not beside one of those.
"""

import gc
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(*, alone: bool) -> Iterator[None]:
    """The GPU, which no other process of this user's tests has to itself meanwhile."""
    import fcntl  # no module of all systems, but of those with such a GPU

    with (Path(tempfile.gettempdir()) / f"tuner-tests-gpu-{os.getuid()}").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            yield
        finally:
            if alone:
                _hand_back()


def _hand_back() -> None:
    """What torch keeps for later is free for other processes."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
