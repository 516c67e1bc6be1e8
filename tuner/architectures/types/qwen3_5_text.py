"""The text part of dense Qwen3.5."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.types.qwen3 import normed_heads
from tuner.model_shape import LinearAttention, ModelShape


def read(config: Config) -> ModelShape:
    """Dense Qwen3.5: linear attention, and one layer in four with gated full attention."""
    shape = replace(normed_heads(config, head_dim=256), attention_gate=True)
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


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(float32_norms=True, shared_first=True, copied_heads=True),
    verl_gathers_head_since="0.8.0",
)
