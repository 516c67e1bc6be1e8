"""SmolLM3."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import with_windows
from tuner.architectures.types.llama import read as read_llama
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """SmolLM3: Llama with tied embeddings unless the file says otherwise."""
    config.stated("num_key_value_heads")
    shape = replace(read_llama(config), tied_embeddings=config.flag("tie_word_embeddings", default=True))
    if not config.flag("use_sliding_window", default=False):
        return shape
    return with_windows(shape, config, lambda layer: (layer + 1) % 4 == 0, default=None)


ARCHITECTURE = Architecture(read=read, token_classification=True)
