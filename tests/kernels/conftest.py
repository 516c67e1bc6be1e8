"""The kernels are imported here, before any test runs: whether Triton interprets them is chosen by then.

Where there is a GPU they are compiled for it. Where there is none they run in Triton's interpreter, for which
the variable is set while they are imported, and gone again before any test runs: other tests, and the
processes that tests start, see nothing of it. A test that sets it does not change them either.
"""

import os
from collections.abc import Generator, Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from tests import card

FOLDER = Path(__file__).parent
TRITON = find_spec("triton") is not None
CUDA = torch.cuda.is_available()


def _release(package: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version(package).split(".")[:2])


#: Whether Triton's interpreter works with this numpy, see the versions in pyproject.toml.
INTERPRETS = TRITON and (_release("triton") >= (3, 7) or _release("numpy") < (2, 4))


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
            from tuner.kernels import linear_cross_entropy

            # The first launch has Triton import more of itself.
            row = torch.ones(1, 1)
            linear_cross_entropy(row, row, torch.zeros(1, dtype=torch.int64))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("triton") and not TRITON:
            item.add_marker(pytest.mark.skip(reason="needs Triton, which has no build for this system"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not CUDA or FOLDER not in item.path.parents or item.get_closest_marker("gpu"):
        return (yield)
    with card.held(alone=False):  # cases are on the GPU where there is one
        return (yield)


@pytest.fixture
def poisoned() -> Iterator[None]:
    """New tensors are full of NaN: what nobody writes does not look right by chance."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(7).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
