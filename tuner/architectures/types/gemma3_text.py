"""The text part of Gemma 3, and its smallest model."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.parts import with_windows
from tuner.architectures.types.gemma import read as read_gemma
from tuner.model_shape import ModelShape, QueryKeyNorm


def read(config: Config) -> ModelShape:
    """Gemma 3: Gemma 2 with normalised heads; the last of every six layers has no window."""
    # Published Gemma 3 files state only what differs from these defaults of transformers.
    defaults = {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
    }
    stated = {key: value for key, value in config.values.items() if value is not None}
    config = replace(config, values=defaults | stated)
    shape = replace(read_gemma(config), norms_per_layer=4, qk_norm=QueryKeyNorm.PER_HEAD)
    pattern = config.size("sliding_window_pattern", default=6)
    return with_windows(shape, config, lambda layer: (layer + 1) % pattern != 0)


ARCHITECTURE = Architecture(
    read=read, layer=LayerTraits(float32_norms=True, norms_after=True, rotary_tables=2)
)
