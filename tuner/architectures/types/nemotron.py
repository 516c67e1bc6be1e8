"""Nemotron-3, Nemotron-4 and Minitron, before the hybrids."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Nemotron: LayerNorm with bias, and an MLP without a gate."""
    bias = config.flag("attention_bias", default=False)
    return replace(
        base_shape(config, grouped=True),
        qkv_bias=bias,
        output_bias=bias,
        mlp_bias=config.flag("mlp_bias", default=False),
        gated_mlp=False,
        norm_bias=True,
    )


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(norms_keep_input=True, squares_relu=True),
    token_classification=True,
)
