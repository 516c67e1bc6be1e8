"""The kernels on the GPU where there is one, else in Triton's interpreter; see ``tests.interpreted``."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import torch

from tests import card
from tests.interpreted import CUDA, TRITON

FOLDER = Path(__file__).parent


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
