"""DeepSeek-V2."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, dense_first, with_moe
from tuner.model_shape import LatentAttention, ModelShape


def read(config: Config) -> ModelShape:
    """DeepSeek-V2, V3 and Moonlight: latent attention, the first layers dense."""
    latent = LatentAttention(
        q_lora_rank=config.optional_size(config.stated("q_lora_rank")),
        kv_lora_rank=config.size("kv_lora_rank"),
        qk_nope_head_dim=config.size("qk_nope_head_dim"),
        qk_rope_head_dim=config.size("qk_rope_head_dim"),
        v_head_dim=config.size("v_head_dim"),
    )
    bias = config.flag("attention_bias", default=False)
    # Latent attention has no use for these two, whatever the file states: every query head has
    # keys and values of its own once they are expanded, and its width follows from the ranks.
    head_dim = latent.qk_nope_head_dim + latent.qk_rope_head_dim
    unused = {"num_key_value_heads": None, "head_dim": head_dim}
    shape = base_shape(replace(config, values={**config.values, **unused}))
    shape = replace(shape, latent=latent, qkv_bias=bias, output_bias=bias)
    if config.size("moe_layer_freq", default=1) != 1:
        raise config.error("moe_layer_freq", "only 1 is modelled")
    width = config.size("moe_intermediate_size")
    return with_moe(
        shape,
        config,
        experts=config.size("n_routed_experts"),
        width=width,
        shared=config.count(config.stated("n_shared_experts"), default=0) * width,
        dense_layers=dense_first(config, shape.layers),
    )


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(float32_routing=True, router_copies_input=True),
    vllm_second_runner_since="0.24.0",
    bridge_fuses_activation=True,
)
