"""GLM-4-0414."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """GLM-4-0414: norms before and after each block."""
    shape = base_shape(config, grouped=True, head_dim=128)
    return replace(shape, qkv_bias=config.flag("attention_bias", default=True), norms_per_layer=4)


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(norms_after=True, merged_gate_up=True, interleaved_rotary=True, copied_heads=True),
    token_classification=True,
)
