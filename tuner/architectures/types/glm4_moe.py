"""GLM-4.5."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, dense_first, with_moe
from tuner.model_shape import ModelShape, QueryKeyNorm


def read(config: Config) -> ModelShape:
    """GLM-4.5: grouped-query attention, the first layers dense."""
    normed = config.flag("use_qk_norm", default=False)
    shape = replace(
        base_shape(config, grouped=True),
        qkv_bias=config.flag("attention_bias", default=False),
        qk_norm=QueryKeyNorm.PER_HEAD if normed else QueryKeyNorm.NONE,
    )
    width = config.size("moe_intermediate_size")
    return with_moe(
        shape,
        config,
        experts=config.size("n_routed_experts", "num_experts"),
        width=width,
        shared=config.count(config.stated("n_shared_experts"), default=0) * width,
        dense_layers=dense_first(config, shape.layers),
    )


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(
        sigmoid_router=True,
        router_copies_input=True,
        copied_heads=True,
        norms_heads_last=True,
        fused_experts=False,
    ),
    liger_layers=False,
    bridge_fuses_activation=True,
)
