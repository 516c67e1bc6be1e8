"""Gemma."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Gemma: wide heads, tied embeddings."""
    bias = config.flag("attention_bias", default=False)
    shape = base_shape(config, grouped=True, head_dim=256, tied=True)
    return replace(shape, qkv_bias=bias, output_bias=bias)


ARCHITECTURE = Architecture(read=read, layer=LayerTraits(float32_norms=True), token_classification=True)
