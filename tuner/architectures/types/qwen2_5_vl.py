"""Qwen2.5-VL."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.towers import (
    attention_parameters,
    linear_parameters,
    merger_parameters,
    patch_parameters,
)
from tuner.architectures.types.qwen2 import read
from tuner.model_shape import ModelShape


def tower(vision: Config, text: ModelShape) -> int:
    """Qwen2.5-VL: RMSNorm blocks with a gated MLP, all with biases."""
    width = vision.size("hidden_size")
    inner = vision.size("intermediate_size")
    mlp = 2 * linear_parameters(width, inner) + linear_parameters(inner, width)
    blocks = vision.size("depth") * (attention_parameters(width) + mlp + 2 * width)
    merger = width + merger_parameters(vision, width, vision.size("out_hidden_size"))
    return patch_parameters(vision, width, frames=True) + blocks + merger


ARCHITECTURE = Architecture(read=read, tower=tower)
