"""Pieces that vision towers are made of, in parameters, and dimensions. As transformers 5 builds them."""

from typing import Any

from tuner.architectures.config import Config
from tuner.vision_tower import VisionTower

_HEADS = 16  # of every tower that leaves them out of its configuration


def linear_parameters(width_in: int, width_out: int) -> int:
    """A linear layer with its bias."""
    return width_in * width_out + width_out


def attention_parameters(width: int) -> int:
    """Four projections with their biases."""
    return 4 * linear_parameters(width, width)


def patch_parameters(vision: Config, width: int, *, frames: bool) -> int:
    """The convolution that makes one token of a patch, without its bias."""
    return width * patch_values(vision, frames=frames)


def patch_values(vision: Config, *, frames: bool) -> int:
    """Numbers of one patch: its colours, and as many frames as become one."""
    pixels = vision.size("patch_size") ** 2 * vision.size(
        "in_channels", "in_chans", "num_channels", default=3
    )
    return pixels * (vision.size("temporal_patch_size") if frames else 1)


def qwen_tower(vision: Config, *, width: int, inner: int, **particular: Any) -> VisionTower:
    """A tower of the Qwen-VL family; they differ in norms, MLP, windows and how many mergers there are."""
    return VisionTower(
        blocks=vision.size("depth"),
        width=width,
        heads=vision.size("num_heads", default=_HEADS),
        inner=inner,
        patch=vision.size("patch_size"),
        values=patch_values(vision, frames=True),
        merge=vision.size("spatial_merge_size"),
        **particular,
    )


def merger_parameters(vision: Config, width: int, out: int) -> int:
    """Two linear layers over the patches of one square, without their norm."""
    merged = width * vision.size("spatial_merge_size") ** 2
    return linear_parameters(merged, merged) + linear_parameters(merged, out)
