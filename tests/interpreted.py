"""The kernels, imported before any test runs: whether Triton interprets them is chosen by then.

Where there is a GPU they are compiled for it. Where there is none they run in Triton's interpreter, for which
the variable is set while they are imported, and gone again before any test runs: other tests, and the
processes that tests start, see nothing of it. A test that sets it does not change them either. Every folder
of tests that imports kernels imports this first.
"""

import inspect
import os
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest
import torch

TRITON = find_spec("triton") is not None
CUDA = torch.cuda.is_available()


def _release(package: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version(package).split(".")[:2])


#: Whether Triton's interpreter works with this numpy, see the versions in pyproject.toml.
INTERPRETS = TRITON and (_release("triton") >= (3, 7) or _release("numpy") < (2, 4))


def _looks_through_packages_once() -> None:
    """Have Triton's interpreter remember which names of its own packages it replaces.

    It lists all members of five of them for each call of each function, which takes a sixth of the time.
    """
    from triton.language.core import is_builtin
    from triton.runtime import interpreter

    @cache
    def names(package: object) -> tuple[str, ...]:
        return tuple(name for name, member in inspect.getmembers(package) if is_builtin(member))

    def members(package: object) -> list[tuple[str, Any]]:
        return [(name, getattr(package, name)) for name in names(package)]

    interpreter.inspect = SimpleNamespace(**{**vars(inspect), "getmembers": members})


if CUDA:
    # What torch asks for before it fills new tensors, see ``poisoned``.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
if TRITON:
    with pytest.MonkeyPatch.context() as patch:
        if CUDA:
            patch.delenv("TRITON_INTERPRET", raising=False)
        else:
            patch.setenv("TRITON_INTERPRET", "1")
        import_module("tuner.kernels.dlogits")
        import_module("tuner.kernels.scale")
        if not CUDA:
            _looks_through_packages_once()
            from tuner.kernels import linear_cross_entropy

            # The first launch has Triton import more of itself.
            row = torch.ones(1, 1)
            linear_cross_entropy(row, row, torch.zeros(1, dtype=torch.int64))
