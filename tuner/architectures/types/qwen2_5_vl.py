"""Qwen2.5-VL."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.towers import (
    attention_parameters,
    linear_parameters,
    merger_parameters,
    patch_parameters,
    qwen_tower,
)
from tuner.architectures.types.qwen2 import read
from tuner.model_shape import ModelShape
from tuner.vision_tower import VisionTower

# Where the configuration leaves them out.
_FULL_ATTENTION = (7, 15, 23, 31)
_WINDOW = 112  # pixels along either side


def block(vision: Config) -> int:
    """One block: attention, a gated MLP and two RMSNorms."""
    width, inner = vision.size("hidden_size"), vision.size("intermediate_size")
    mlp = 2 * linear_parameters(width, inner) + linear_parameters(inner, width)
    return attention_parameters(width) + mlp + 2 * width


def tower(vision: Config, text: ModelShape) -> int:
    """Qwen2.5-VL: RMSNorm blocks with a gated MLP, all with biases."""
    width = vision.size("hidden_size")
    blocks = vision.size("depth") * block(vision)
    merger = width + merger_parameters(vision, width, vision.size("out_hidden_size"))
    return patch_parameters(vision, width, frames=True) + blocks + merger


def dimensions(vision: Config) -> VisionTower:
    """RMSNorms, windows, and a gated MLP: gate, its activation, the other half and their product are kept."""
    depth = vision.size("depth")
    full = vision.indices("fullatt_block_indexes", below=depth) or tuple(
        index for index in _FULL_ATTENTION if index < depth
    )
    return qwen_tower(
        vision,
        width=vision.size("hidden_size"),
        inner=vision.size("intermediate_size"),
        block_unit=block(vision),
        embeds_patches=True,
        rms_norms=True,
        gated=True,
        windowed_blocks=depth - len(full),
        window_patches=(vision.size("window_size", default=_WINDOW) // vision.size("patch_size")) ** 2,
        kept_inner=4,
        gradients_inner=2,
    )


ARCHITECTURE = Architecture(
    read=read, tower=tower, vision=dimensions, verl_repeats_keys=True, verl_fused_images_since="0.4.1"
)
