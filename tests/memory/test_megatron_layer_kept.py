"""What Megatron-Core keeps of a layer: against what autograd was seen to keep of its modules, and by hand.

The record is of Megatron-Core 0.16, which offsets what a gate multiplies where the activation is not fused.
"""

import json

import pytest
from msgspec.structs import replace

from tests import workloads
from tests.memory.measured import RECORDED
from tuner.memory.megatron.layers import layer_bytes
from tuner.model_shape import ModelShape, QueryKeyNorm
from tuner.workload import Engine

RECORD = json.loads((RECORDED / "megatron-saved.json").read_text())
BASE = workloads.grpo_32b_megatron()


def engine(tensor: int = 1, *, activation: bool = True, rotary: bool = True, offset: bool = True) -> Engine:
    """What is fused; by default everything, as verl's bridge sets it."""
    parallel = replace(BASE.actor.engine.parallel, tensor=tensor)
    fused = {"fused_layers": activation, "fused_rotary": rotary, "offsets_gated": offset}
    return replace(BASE.actor.engine, parallel=parallel, **fused)


def model(*, query_key_norms: bool, **dimensions: int) -> ModelShape:
    norm = QueryKeyNorm.PER_HEAD if query_key_norms else QueryKeyNorm.NONE
    return replace(BASE.model, qk_norm=norm, **dimensions)


@pytest.mark.parametrize("layer", RECORD["layers"])
def test_a_layer_keeps_what_autograd_was_seen_to_keep(layer: dict[str, float]) -> None:
    shape = model(query_key_norms=bool(layer["query_key_norms"]), **RECORD["dimensions"])
    fused = engine(activation=bool(layer["fused_activation"]), rotary=bool(layer["fused_rotary"]))
    assert layer_bytes(shape, fused, 0) == pytest.approx(layer["saved_bytes_per_token"], rel=1e-3)


def test_before_megatron_core_0_15_a_gate_multiplies_a_view() -> None:
    shape = model(query_key_norms=False)
    later, before, fused = (
        layer_bytes(shape, engine(activation=activation, offset=offset), 0)
        for activation, offset in ((False, True), (False, False), (True, True))
    )
    bytes_of_width = 2 * shape.intermediate
    assert (later - before, before - fused) == (bytes_of_width, bytes_of_width)


def test_experts_whose_activation_is_not_fused_keep_the_offset_copy_too() -> None:
    sparse = replace(workloads.QWEN3_30B_A3B, qk_norm=QueryKeyNorm.NONE)
    assert sparse.moe is not None
    later, before = (
        layer_bytes(sparse, engine(activation=False, offset=offset), 0) for offset in (True, False)
    )
    assert later - before == 2 * sparse.moe.experts_per_token * sparse.moe.expert_intermediate


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
