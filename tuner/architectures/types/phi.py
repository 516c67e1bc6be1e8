"""Phi-1, Phi-1.5 and Phi-2."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import base_shape
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Phi-1, Phi-1.5 and Phi-2: LayerNorm, biases everywhere, attention beside the MLP."""
    if config.flag("qk_layernorm", default=False):
        raise config.error("qk_layernorm", "query and key norms of this model are not modelled")
    return replace(
        base_shape(config),
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        head_bias=True,
        gated_mlp=False,
        norm_bias=True,
        norms_per_layer=1,
    )


ARCHITECTURE = Architecture(read=read, liger_layers=False, token_classification=True)
