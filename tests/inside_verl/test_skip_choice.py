"""Which sequences of a batch the skip takes, and in which order."""

import sys
import types

import pytest
import torch

from tests.inside_verl.skip_stand_ins import TENSORDICT, TENSORDICT_UTILS
from tuner.inside_verl.skip import engine


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """verl's functions on its batches, and the batches."""
    tensordict, utilities = types.ModuleType("tensordict"), types.ModuleType("tensordict_utils")
    exec(TENSORDICT, vars(tensordict))
    monkeypatch.setitem(sys.modules, "tensordict", tensordict)
    exec(TENSORDICT_UTILS, vars(utilities))
    monkeypatch.setattr(engine, "_tensordict_utils", lambda: utilities)
    return utilities


def test_sequences_are_taken_in_the_order_that_is_asked_for(batches: types.ModuleType) -> None:
    ids = [torch.tensor([1, 2]), torch.tensor([3]), torch.tensor([4, 5, 6])]
    whole = batches.TensorDict(
        {"advantages": torch.tensor([[0.1], [0.2], [0.3]]), "input_ids": batches.nested(ids)}, [3]
    )
    for order in ([2, 0, 1], [1], [0, 2]):
        taken = engine._selected_rows(whole, order)
        assert len(taken) == len(order)
        assert torch.equal(taken["advantages"], whole["advantages"][order])
        assert [row.tolist() for row in taken["input_ids"].unbind()] == [ids[row].tolist() for row in order]
    assert engine._selected_rows(whole, [0, 1, 2]) is whole
