"""Qwen3-VL with experts."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.types.qwen3_moe import read
from tuner.architectures.types.qwen3_vl import tower

ARCHITECTURE = Architecture(read=read, tower=tower, verl_gathers_head_since="0.9.0")
