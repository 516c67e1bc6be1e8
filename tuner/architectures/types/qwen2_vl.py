"""Qwen2-VL."""

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


def block(vision: Config) -> int:
    """One block: attention, MLP and two LayerNorms."""
    width = vision.size("embed_dim")
    inner = width * vision.size("mlp_ratio")
    mlp = linear_parameters(width, inner) + linear_parameters(inner, width)
    return attention_parameters(width) + mlp + 4 * width


def tower(vision: Config, text: ModelShape) -> int:
    """Qwen2-VL: LayerNorm blocks of width ``embed_dim``; ``hidden_size`` is the language model's."""
    width = vision.size("embed_dim")
    blocks = vision.size("depth") * block(vision)
    merger = 2 * width + merger_parameters(vision, width, vision.size("hidden_size"))
    return patch_parameters(vision, width, frames=True) + blocks + merger


def dimensions(vision: Config) -> VisionTower:
    """LayerNorms, and an MLP whose activation is its input times a sigmoid of it, which is kept as well."""
    width = vision.size("embed_dim")
    inner = width * vision.size("mlp_ratio")
    return qwen_tower(
        vision,
        width=width,
        inner=inner,
        block_unit=block(vision),
        embeds_patches=True,
        kept_inner=3,
        gradients_inner=2,
    )


ARCHITECTURE = Architecture(
    read=read, tower=tower, vision=dimensions, verl_repeats_keys=True, verl_fused_images_since="0.4.1"
)
