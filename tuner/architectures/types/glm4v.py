"""GLM-4.1V."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import base_shape
from tuner.architectures.towers import patch_parameters
from tuner.architectures.types.glm4 import ARCHITECTURE as GLM_4
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """The text part of GLM-4.1V: GLM-4 with biases always."""
    return replace(base_shape(config, grouped=True), qkv_bias=True, norms_per_layer=4)


def tower(vision: Config, text: ModelShape) -> int:
    """GLM-4.1V: RMSNorm blocks with a gated MLP, a strided convolution and a gated merger."""
    width = vision.size("hidden_size")
    out = vision.size("out_hidden_size")
    inner = vision.size("intermediate_size")
    bias = 3 * width if vision.flag("attention_bias", default=False) else 0
    blocks = vision.size("depth") * (4 * width**2 + bias + 3 * width * out + 2 * width)
    patches = patch_parameters(vision, width, frames=True) + width
    positions = (vision.size("image_size") // vision.size("patch_size")) ** 2 * width
    merge = vision.size("spatial_merge_size")
    downsample = width * merge**2 * out + out
    merger = out**2 + 2 * out + 3 * out * inner
    return patches + positions + blocks + 2 * width + downsample + merger


ARCHITECTURE = Architecture(read=read, tower=tower, layer=GLM_4.layer, verl_fused_images_since="0.6.0")
