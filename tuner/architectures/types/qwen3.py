"""Qwen3."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import base_shape, idle_window, with_windows
from tuner.model_shape import ModelShape, QueryKeyNorm


def read(config: Config) -> ModelShape:
    """Qwen3 and its text part in Qwen3-VL."""
    shape = normed_heads(config, head_dim=128)
    if not config.flag("use_sliding_window", default=False):
        return replace(shape, idle_window=idle_window(config))
    first = config.count("max_window_layers", default=28)
    return with_windows(shape, config, lambda layer: layer >= first)


def normed_heads(config: Config, *, head_dim: int | None) -> ModelShape:
    """What all Qwen3 models share: heads are normalised one by one, no biases."""
    bias = config.flag("attention_bias", default=False)
    return replace(
        base_shape(config, grouped=True, head_dim=head_dim),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=QueryKeyNorm.PER_HEAD,
    )


ARCHITECTURE = Architecture(read=read, token_classification=True, vllm_second_runner_since="0.22.0")
