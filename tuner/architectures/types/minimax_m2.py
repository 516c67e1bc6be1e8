"""MiniMax-M2."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, with_moe
from tuner.model_shape import ModelShape, QueryKeyNorm


def read(config: Config) -> ModelShape:
    """MiniMax-M2: every layer sparse, all query heads normalised together, and all key heads."""
    shape = replace(base_shape(config, grouped=True, head_dim=128), qk_norm=QueryKeyNorm.FULL)
    experts = config.size("num_local_experts", "num_experts")
    return with_moe(shape, config, experts=experts, width=config.size("intermediate_size"))


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(float32_routing=True),
    liger_layers=False,
)
