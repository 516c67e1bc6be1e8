"""Experts that routers record or replay, worked out by hand: 48 sparse layers, eight experts per token."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.memory.test_megatron_passes import given
from tests.workloads import QWEN3_30B_A3B
from tuner.memory.batch.micro_batch import Routes
from tuner.memory.megatron.routes import route_terms, routes_at_step

REPLAYED = Routes(layers=48, replayed=True, index_bytes=2, pass_tokens=9000, kept_through_step=True)
RECORDED = replace(REPLAYED, replayed=False)
FIRST = {"recompute_first_layers": 5}


@pytest.mark.parametrize(
    ("routes", "grid", "training", "batch", "routers"),
    [
        # Each token of 4,096 on two ranks that share sequences, two bytes; indices of eight bytes, halved.
        (REPLAYED, {"tensor": 2, "context": 2}, True, 2 * 4096 * 48 * 8 * 2, 8 * 4096 * 48 * 8 // 2),
        (REPLAYED, {}, False, 4096 * 48 * 8 * 2, 8 * 9000 * 48 * 8),  # of all micro-batches
        # Five layers are computed again, 43 hold the tokens of the whole pass.
        (REPLAYED, FIRST, True, 4096 * 48 * 8 * 2, 8 * 8 * (4096 * 5 + 9000 * 43)),
        (RECORDED, FIRST, True, 4096 * 48 * 8 * 2, 8 * 8 * 4096 * 48),
        (RECORDED, {"pipeline": 2, "stage": 1, **FIRST}, False, 4096 * 24 * 8 * 2, 8 * 8 * 4096 * 24),
    ],
)
def test_experts_on_the_card(
    routes: Routes, grid: dict[str, Any], training: bool, batch: int, routers: int
) -> None:
    micro_batch = replace(given(model=QWEN3_30B_A3B, **grid), routes=routes)
    terms = route_terms(micro_batch, training=training)
    assert [(term.name, term.bytes) for term in terms] == [
        ("batch_routes", batch),
        ("router_routes", routers),
    ]


@pytest.mark.parametrize("routes", [REPLAYED, RECORDED, replace(REPLAYED, kept_through_step=False), None])
def test_routers_that_hold_them_while_the_optimizer_steps(routes: Routes | None) -> None:
    names = [term.name for term in routes_at_step(replace(given(model=QWEN3_30B_A3B), routes=routes))]
    assert names == (["router_routes"] if routes is not None and routes.kept_through_step else [])
