"""Where there is no GPU the kernels run in Triton's interpreter, which is chosen when they are defined.

So they are imported here, with the variable set, which is gone again before any test runs: other tests, and
the processes that tests start, see nothing of it.
"""

import os
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch

TRITON = find_spec("triton") is not None
CUDA = torch.cuda.is_available()

if CUDA:
    # What torch asks for before it fills new tensors, see ``poisoned``.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
elif TRITON:
    before = os.environ.get("TRITON_INTERPRET")
    os.environ["TRITON_INTERPRET"] = "1"
    from tuner.kernels import linear_cross_entropy

    import_module("tuner.kernels.dlogits")
    import_module("tuner.kernels.scale")
    # The first launch has Triton import more of itself.
    row = torch.ones(1, 1)
    linear_cross_entropy(row, row, torch.zeros(1, dtype=torch.int64))

    if before is None:
        del os.environ["TRITON_INTERPRET"]
    else:
        os.environ["TRITON_INTERPRET"] = before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("gpu") and not CUDA:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
        if item.get_closest_marker("triton") and not TRITON:
            item.add_marker(pytest.mark.skip(reason="needs Triton, which has no build for this system"))


@pytest.fixture
def poisoned() -> Iterator[None]:
    """New tensors are full of NaN: what nobody writes does not look right by chance."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(7).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
