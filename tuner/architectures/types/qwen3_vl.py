"""Qwen3-VL."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.towers import (
    attention_parameters,
    linear_parameters,
    merger_parameters,
    patch_parameters,
    qwen_tower,
)
from tuner.architectures.types.qwen3 import read
from tuner.model_shape import ModelShape
from tuner.vision_tower import VisionTower


def block(vision: Config) -> int:
    """One block: attention, MLP and two LayerNorms."""
    width, inner = vision.size("hidden_size"), vision.size("intermediate_size")
    mlp = linear_parameters(width, inner) + linear_parameters(inner, width)
    return attention_parameters(width) + mlp + 4 * width


def tower(vision: Config, text: ModelShape) -> int:
    """Qwen3-VL and Qwen3.5: learned positions, and one further merger per deep-stack layer."""
    width = vision.size("hidden_size")
    depth = vision.size("depth")
    blocks = depth * block(vision)
    positions = vision.size("num_position_embeddings") * width
    merger = merger_parameters(vision, width, vision.size("out_hidden_size"))
    merged = width * vision.size("spatial_merge_size") ** 2
    deep_stack = len(vision.indices("deepstack_visual_indexes", below=depth)) * (2 * merged + merger)
    patches = patch_parameters(vision, width, frames=True) + width
    return patches + positions + blocks + 2 * width + merger + deep_stack


def dimensions(vision: Config) -> VisionTower:
    """LayerNorms, an MLP with GELU, and a further merger for each deep-stack layer."""
    width, inner = vision.size("hidden_size"), vision.size("intermediate_size")
    deep_stack = len(vision.indices("deepstack_visual_indexes", below=vision.size("depth")))
    return qwen_tower(
        vision,
        width=width,
        inner=inner,
        block_unit=block(vision),
        mergers=1 + deep_stack,
        kept_inner=2,
        gradients_inner=1,
    )


ARCHITECTURE = Architecture(
    read=read,
    # Source: Liger-Kernel 0.8.5 ``transformers/monkey_patch.py``: what it does for this type reads no swiglu.
    layer=LayerTraits(fused_activation=False),
    tower=tower,
    vision=dimensions,
    bridge_fuses_activation=True,
    verl_gathers_head_since="0.9.0",
    verl_fused_images_since="0.6.0",
)
