"""Qwen3-MoE."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import sparse_steps, with_moe, with_windows
from tuner.architectures.types.qwen3 import normed_heads
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Qwen3-MoE and its text part in Qwen3-VL: no shared expert."""
    shape = normed_heads(config, head_dim=None)
    if config.flag("use_sliding_window", default=False):
        shape = with_windows(shape, config, lambda layer: True)
    return with_moe(
        shape,
        config,
        experts=config.size("num_experts", "num_local_experts"),
        width=config.size("moe_intermediate_size"),
        dense_layers=sparse_steps(config, shape.layers),
    )


ARCHITECTURE = Architecture(read=read, token_classification=True)
