"""OLMo 3."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import with_windows
from tuner.architectures.types.olmo2 import read as read_olmo2
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """OLMo 3: OLMo 2, where the last of every four layers has no window."""
    return with_windows(read_olmo2(config), config, lambda layer: (layer + 1) % 4 != 0)


ARCHITECTURE = Architecture(
    read=read, layer=LayerTraits(float32_norms=True, norms_before=False, norms_after=True)
)
