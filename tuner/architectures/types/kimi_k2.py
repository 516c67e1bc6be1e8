"""Kimi K2, whose code lives in the checkpoint's repository."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.types.deepseek_v3 import ARCHITECTURE as DEEPSEEK_V3

ARCHITECTURE = Architecture(
    read=DEEPSEEK_V3.read,
    layer=replace(DEEPSEEK_V3.layer, fused_experts=False),
    liger_layers=False,
    bridge_fuses_activation=True,
)
