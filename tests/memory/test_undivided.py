"""Activations without sequence parallelism are in the upper end, as a whole."""

import pytest

from tests.trainers.launches import ACTOR, MEGATRON, REF, workload_of
from tuner import memory
from tuner.memory import PhaseEstimate
from tuner.memory.ledger.terms import Item
from tuner.workload import Phase

OFF = tuple(f"{role}.megatron.sequence_parallel=False" for role in (ACTOR, REF))
BRIDGE = tuple(f"{role}.megatron.vanilla_mbridge=False" for role in (ACTOR, REF))


def update(*more: str, version: str = "0.9.1") -> PhaseEstimate:
    found = memory.estimate(workload_of((*MEGATRON, *more), version)).phase(Phase.UPDATE_ACTOR)
    assert found is not None
    return found


def test_the_upper_end_has_every_activation_whole() -> None:
    divided, whole = update(*BRIDGE), update(*BRIDGE, *OFF)
    assert whole.peak_bytes == divided.peak_bytes
    for before, after in zip(divided.moments, whole.moments, strict=True):
        held = sum(term.bytes for term in before.terms if term.item is Item.ACTIVATIONS)
        assert after.interval[0] == before.interval[0]
        assert after.interval[1] - before.interval[1] == 3 * held  # four ranks
    assert whole.interval[1] > divided.interval[1]


@pytest.mark.parametrize("bridge", [True, False])
def test_only_megatron_bridge_is_told(bridge: bool) -> None:
    said = (f"{ACTOR}.megatron.vanilla_mbridge={not bridge}", OFF[0])
    engine = workload_of((*MEGATRON, *said), "0.7.1").actor.engine
    assert engine.divides_sequence is not bridge
