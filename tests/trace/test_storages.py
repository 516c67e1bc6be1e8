"""The counter itself, on a few operations whose bytes are known."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from tuner.trace.storages import Storages  # noqa: E402


def test_views_of_one_storage_count_once() -> None:
    with FakeTensorMode(), Storages() as storages:
        whole = torch.empty(100, dtype=torch.float32)
        part = whole[:10].view(2, 5)
        assert storages.live() == 400
        del whole
        assert storages.live() == 400  # a view keeps all of it
        del part
        assert storages.live() == 0
    assert storages.peak() == 400


def test_what_is_known_does_not_count() -> None:
    with FakeTensorMode():
        known = torch.empty(100, dtype=torch.bfloat16)
        with Storages(known) as storages:
            assert storages.live() == 0
            more = known + 1
            known.add_(more)
            assert storages.live() == 200


def test_the_peak_knows_what_has_gone() -> None:
    with FakeTensorMode(), Storages() as storages:
        first = torch.empty(10, dtype=torch.int64)
        del first
        start = len(storages.events)
        second = torch.empty(3, dtype=torch.int64)
        assert storages.peak() == 80
        assert storages.peak(start) == 24
        assert storages.peak(without=storages.numbers(second)) == 80


def test_the_gradient_of_an_index_is_added_in_place() -> None:
    """Fake tensors would make a second copy of the zeros that it is added to."""
    with FakeTensorMode():
        rows = torch.empty(8, 4, requires_grad=True)
        order = torch.zeros(8, dtype=torch.long)
        with Storages(rows, order) as storages:
            chosen = rows[order]
            storages.backward = True
            start = len(storages.events)
            torch.autograd.backward([chosen], [torch.empty_like(chosen)])
            assert rows.grad is not None
            assert storages.peak(start) == 2 * 8 * 4 * 4  # the gradient that comes, and the one that goes


def test_what_autograd_saves_stays() -> None:
    with FakeTensorMode():
        weight = torch.empty(4, 4, requires_grad=True)
        states = torch.empty(8, 4)
        with Storages(weight, states) as storages:
            out = torch.sigmoid(states @ weight)
            # The product goes; sigmoid saves its own result.
            assert storages.live() == 8 * 4 * 4
            del out
            assert storages.live() == 0
