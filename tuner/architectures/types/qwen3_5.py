"""Dense Qwen3.5."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.types.qwen3_5_text import ARCHITECTURE as TEXT
from tuner.architectures.types.qwen3_vl import tower

ARCHITECTURE = Architecture(
    read=TEXT.read,
    tower=tower,
    layer=TEXT.layer,
    sees_beside_text=True,
    token_classification=True,
    bridge_fuses_activation=True,
    verl_gathers_head_since="0.8.0",
    verl_fused_images_since="0.8.0",
)
