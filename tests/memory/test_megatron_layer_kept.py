"""What Megatron-Core keeps of a layer: against what autograd was seen to keep of its modules, and by hand."""

import json

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.memory.megatron.layers import layer_bytes, rotary_bytes
from tuner.model_shape import ModelShape, QueryKeyNorm
from tuner.workload import Engine

RECORD = json.loads((RECORDED / "megatron-saved.json").read_text())
BASE = workloads.grpo_32b_megatron()


def engine(tensor: int = 1) -> Engine:
    """Everything fused, as verl's bridge sets it."""
    parallel = replace(BASE.actor.engine.parallel, tensor=tensor)
    return replace(BASE.actor.engine, parallel=parallel, fused_layers=True, fused_rotary=True)


def model(*, query_key_norms: bool, **dimensions: int) -> ModelShape:
    norm = QueryKeyNorm.PER_HEAD if query_key_norms else QueryKeyNorm.NONE
    return replace(BASE.model, qk_norm=norm, **dimensions)


FUSED = [layer for layer in RECORD["layers"] if layer["fused_activation"]]


@pytest.mark.parametrize("layer", FUSED)
def test_a_layer_keeps_what_autograd_was_seen_to_keep(layer: dict[str, float]) -> None:
    shape = model(query_key_norms=bool(layer["query_key_norms"]), **RECORD["dimensions"])
    assert layer_bytes(shape, engine(), 0) == pytest.approx(layer["saved_bytes_per_token"], rel=1e-3)


def test_rotary_tables_are_what_unfused_rotation_was_seen_to_keep() -> None:
    unfused = [layer for layer in RECORD["layers"] if not layer["fused_activation"]]
    for norms in (False, True):
        kept = {
            layer["fused_rotary"]: layer["saved_bytes_per_token"]
            for layer in unfused
            if layer["query_key_norms"] is norms
        }
        shape = model(query_key_norms=norms, **RECORD["dimensions"])
        assert kept[False] - kept[True] == rotary_bytes(shape, replace(engine(), fused_rotary=False))


def test_qwen3_8b_by_hand() -> None:
    """Two norms, queries and keys before and after theirs, values, the output, gate, up and product."""
    hidden, query, key, intermediate = 4096, 4096, 1024, 12288
    by_hand = 2 * (2 * 2 * hidden + 4)
    by_hand += 2 * (query + key) + 4 * (32 + 8)  # what the norms of queries and keys read
    by_hand += 2 * (query + 2 * key + query) + 4 * 32  # what attention reads, its output, its statistics
    by_hand += 2 * 3 * intermediate
    dimensions = {"hidden": hidden, "heads": 32, "kv_heads": 8, "head_dim": 128, "intermediate": intermediate}
    assert layer_bytes(model(query_key_norms=True, **dimensions), engine(2), 0) == by_hand == 137_512
    two_in_flight = 2 * 24_576 * 18 * by_hand / 2
    assert two_in_flight / 2**30 == pytest.approx(56.7, abs=0.1)
