"""Phi-3, Phi-3.5 and Phi-4."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import base_shape, with_windows
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Phi-3, Phi-3.5 and Phi-4: no biases; where a window is stated it holds in every layer."""
    return with_windows(base_shape(config), config, lambda layer: True, default=None)


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(merged_heads=True, merged_gate_up=True, copied_heads=True),
    token_classification=True,
)
