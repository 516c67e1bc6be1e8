"""Qwen1.5-MoE and Qwen2-MoE."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, sparse_steps, with_moe, with_windows
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
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


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(shared_first=True, fused_experts=False),
    liger_layers=False,
    token_classification=True,
    vllm_second_runner_since="0.24.0",
)
