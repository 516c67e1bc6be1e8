"""Hunyuan 3 (Hy3)."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, dense_first, with_moe
from tuner.model_shape import ModelShape, QueryKeyNorm


def read(config: Config) -> ModelShape:
    """Grouped-query attention with normalised heads, experts beside a shared one, the first layer dense."""
    bias = config.flag("attention_bias", default=False)
    shape = replace(
        base_shape(config, grouped=True),
        qkv_bias=bias,
        output_bias=bias,
        head_dim=config.size("head_dim", default=128),
        qk_norm=QueryKeyNorm.PER_HEAD,
    )
    width = config.size("moe_intermediate_size")
    return with_moe(
        shape,
        config,
        experts=config.size("num_experts"),
        width=width,
        shared=config.count(config.stated("num_shared_experts"), default=1) * width,
        dense_layers=dense_first(config, shape.layers),
    )


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(
        sigmoid_router=True,
        float32_routing=True,
        router_copies_input=True,
        copied_heads=True,
        norms_heads_last=True,
        fused_experts=False,
    ),
    liger_layers=False,
)
