"""Mixtral."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, with_moe, with_windows
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Mixtral: every layer sparse; ``intermediate_size`` is the width of one expert."""
    experts = config.size("num_local_experts", "num_experts")
    shape = with_windows(base_shape(config, grouped=True), config, lambda layer: True, default=None)
    return with_moe(shape, config, experts=experts, width=config.size("intermediate_size"))


ARCHITECTURE = Architecture(read=read, layer=LayerTraits(float32_routing=True), token_classification=True)
