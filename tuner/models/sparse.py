"""Families with experts or with linear attention, one function per family, as in ``dense``."""

from msgspec.structs import replace

from tuner.model_shape import LatentAttention, LinearAttention, ModelShape, QueryKeyNorm
from tuner.models.config import Config
from tuner.models.dense import qwen3_attention
from tuner.models.parts import base_shape, dense_first, sparse_steps, with_moe, with_windows


def mixtral(config: Config) -> ModelShape:
    """Mixtral: every layer sparse; ``intermediate_size`` is the width of one expert."""
    experts = config.size("num_local_experts", "num_experts")
    shape = with_windows(base_shape(config, grouped=True), config, lambda layer: True, default=None)
    return with_moe(shape, config, experts=experts, width=config.size("intermediate_size"))


def qwen2_moe(config: Config) -> ModelShape:
    """Qwen1.5-MoE and Qwen2-MoE: a shared expert behind a gate."""
    shape = replace(base_shape(config, grouped=True), qkv_bias=config.flag("qkv_bias", default=True))
    if config.flag("use_sliding_window", default=False):
        first = config.count("max_window_layers", default=28)
        shape = with_windows(shape, config, lambda layer: layer % 2 == 0 and layer < first)
    return with_moe(
        shape,
        config,
        experts=config.size("num_experts"),
        width=config.size("moe_intermediate_size"),
        shared=config.size("shared_expert_intermediate_size"),
        shared_gate=True,
        dense_layers=sparse_steps(config, shape.layers),
    )


def qwen3_moe(config: Config) -> ModelShape:
    """Qwen3-MoE and its text part in Qwen3-VL: no shared expert."""
    shape = qwen3_attention(config, head_dim=None)
    if config.flag("use_sliding_window", default=False):
        shape = with_windows(shape, config, lambda layer: True)
    return with_moe(
        shape,
        config,
        experts=config.size("num_experts", "num_local_experts"),
        width=config.size("moe_intermediate_size"),
        dense_layers=sparse_steps(config, shape.layers),
    )


def gated_delta(config: Config) -> ModelShape:
    """Dense Qwen3.5: linear attention, and one layer in four with gated full attention."""
    shape = replace(qwen3_attention(config, head_dim=256), attention_gate=True)
    kinds = config.kinds("layer_types", layers=shape.layers)
    interval = config.size("full_attention_interval", default=4)
    linear = LinearAttention(
        key_heads=config.size("linear_num_key_heads"),
        value_heads=config.size("linear_num_value_heads"),
        key_head_dim=config.size("linear_key_head_dim"),
        value_head_dim=config.size("linear_value_head_dim"),
        conv_kernel=config.size("linear_conv_kernel_dim"),
        layers=tuple(
            layer
            for layer in range(shape.layers)
            if (kinds[layer] == "linear_attention" if kinds else (layer + 1) % interval)
        ),
    )
    return replace(shape, linear=linear)


def gated_delta_moe(config: Config) -> ModelShape:
    """Qwen3-Next and sparse Qwen3.5: a shared expert behind a gate."""
    shape = gated_delta(config)
    return with_moe(
        shape,
        config,
        experts=config.size("num_experts"),
        width=config.size("moe_intermediate_size"),
        shared=config.size("shared_expert_intermediate_size"),
        shared_gate=True,
        dense_layers=sparse_steps(config, shape.layers),
    )


def deepseek(config: Config) -> ModelShape:
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


def glm4_moe(config: Config) -> ModelShape:
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


def gpt_oss(config: Config) -> ModelShape:
    """gpt-oss: biases everywhere, attention sinks, every other layer has a window."""
    bias = config.flag("attention_bias", default=True)
    shape = replace(
        base_shape(config, grouped=True, head_dim=64),
        qkv_bias=bias,
        output_bias=bias,
        attention_sinks=True,
    )
    experts = config.size("num_local_experts", "num_experts")
    shape = with_moe(shape, config, experts=experts, width=config.size("intermediate_size"), biases=True)
    return with_windows(shape, config, lambda layer: layer % 2 == 0, default=128)
