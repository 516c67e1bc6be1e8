"""A vision tower in the terms of a decoder layer."""

from tuner.timing.layer import LayerWork
from tuner.timing.vision import _as_layer, patches_of_image
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
