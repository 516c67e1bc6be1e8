"""Qwen2 and Qwen2.5."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import base_shape, idle_window, with_windows
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Qwen2, Qwen2.5 and their text part in Qwen-VL: biases on queries, keys and values."""
    shape = replace(base_shape(config, grouped=True), qkv_bias=True)
    if not config.flag("use_sliding_window", default=False):
        return replace(shape, idle_window=idle_window(config))
    first = config.count("max_window_layers", default=28)
    return with_windows(shape, config, lambda layer: layer >= first)


ARCHITECTURE = Architecture(read=read, token_classification=True)
