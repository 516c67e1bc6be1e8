"""OLMo 2."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.types.llama import read as read_llama
from tuner.model_shape import ModelShape, QueryKeyNorm


def read(config: Config) -> ModelShape:
    """OLMo 2: all query heads are normalised together, and all key heads."""
    return replace(read_llama(config), qk_norm=QueryKeyNorm.FULL)


ARCHITECTURE = Architecture(
    read=read,
    layer=LayerTraits(float32_norms=True, norms_before=False, norms_after=True, float32_rotary=True),
)
