"""Qwen3-VL with experts."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.types.qwen3_moe import read
from tuner.architectures.types.qwen3_vl import dimensions, tower

ARCHITECTURE = Architecture(
    read=read,
    tower=tower,
    vision=dimensions,
    bridge_fuses_activation=True,
    bridge_stacks_experts=True,
    verl_gathers_head_since="0.9.0",
    verl_fused_images_since="0.6.0",
)
