"""Qwen3-Next."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import sparse_steps, with_moe
from tuner.architectures.types.qwen3_5_text import ARCHITECTURE as GATED_DELTA
from tuner.architectures.types.qwen3_5_text import read as read_gated_delta
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Qwen3-Next and sparse Qwen3.5: a shared expert behind a gate."""
    shape = read_gated_delta(config)
    return with_moe(
        shape,
        config,
        experts=config.size("num_experts"),
        width=config.size("moe_intermediate_size"),
        shared=config.size("shared_expert_intermediate_size"),
        shared_gate=True,
        dense_layers=sparse_steps(config, shape.layers),
    )


ARCHITECTURE = Architecture(read=read, layer=GATED_DELTA.layer, token_classification=True)
