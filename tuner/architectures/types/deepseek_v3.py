"""DeepSeek-V3, R1 and Moonlight."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.types.deepseek_v2 import read

ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(sigmoid_router=True, router_copies_input=True, copied_heads=True),
    token_classification=True,
    bridge_fuses_activation=True,
)
