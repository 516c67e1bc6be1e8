"""gpt-oss."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, with_moe, with_windows
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
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


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(
        float32_norms=True,
        copied_heads=True,
        scores_of_chosen=True,
        fused_experts=False,
        fused_activation=False,
        expert_activations=5,
    ),
    token_classification=True,
    bridge_fuses_activation=True,
    bridge_stacks_experts=True,
)
