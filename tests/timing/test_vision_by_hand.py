"""A vision tower in the terms of a decoder layer."""

import pytest
from msgspec.structs import replace

from tests import workloads
from tuner.timing.job import TimedPasses
from tuner.timing.layer import LayerWork
from tuner.timing.rates import elementwise_bytes_per_s
from tuner.timing.vision import _as_layer, float32_rotary_seconds, patches_of_image
from tuner.vision_tower import VisionTower

TOWER = VisionTower(
    blocks=3,
    block_unit=1,
    width=60,
    heads=4,
    inner=70,
    patch=14,
    values=588,
    merge=2,
    gated=True,
    kept_inner=4,
    gradients_inner=2,
)


def test_a_block_is_a_layer_without_experts_and_windows() -> None:
    weights = 4 * 60 * 60 + 3 * 60 * 70
    assert _as_layer(TOWER) == LayerWork(
        hidden=60,
        intermediate=60,
        head_dim=15,
        norms=2,
        parameters=weights,
        active_parameters=weights,
        routed_parameters=0,
        routed_active=0,
        expert_width=60,
        expert_share=1,
        attention_width=120,  # keys and values
        query_key_values=120,
        normed_query_keys=0,
        gated_values=70,
        routed_copies=0,
        window=None,
        windowed_share=0,
    )


def test_patches_of_one_of_three_images() -> None:
    assert patches_of_image(TOWER, 150, 3) == 200  # four of each of 50 tokens


def test_queries_and_keys_of_a_rotating_tower_turn_in_float32() -> None:
    """Three blocks, 100 patches, queries and keys of 60: 36,000 values of 32 bytes forward, 42 backward."""
    workload = workloads.grpo_7b()
    job = TimedPasses(cluster=workload.cluster, batch=workload.batch, step_pass=workload.actor_update)
    rate = elementwise_bytes_per_s(workload.cluster.gpu)
    forward, backward = (float32_rotary_seconds(job, TOWER, 100.0, backward=side) for side in (False, True))
    assert (forward * rate, backward * rate) == (pytest.approx(36_000 * 32), pytest.approx(36_000 * 42))
    assert float32_rotary_seconds(job, replace(TOWER, rotates=False), 100.0) == 0
