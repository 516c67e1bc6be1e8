"""Seed-OSS."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Seed-OSS: a switch of its own for the output projection; biases unless switched off."""
    return replace(
        base_shape(config, grouped=True, head_dim=128),
        qkv_bias=config.flag("attention_bias", default=True),
        output_bias=config.flag("attention_out_bias", default=False),
        mlp_bias=config.flag("mlp_bias", default=False),
    )


ARCHITECTURE = Architecture(
    read=read, layer=LayerTraits(drops_out=True), liger_layers=False, token_classification=True
)
