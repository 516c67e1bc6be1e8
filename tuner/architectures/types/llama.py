"""Llama, and the models that are saved as one."""

from msgspec.structs import replace

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import base_shape
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Llama: one switch for all attention biases, one for the MLP."""
    bias = config.flag("attention_bias", default=False)
    mlp_bias = config.flag("mlp_bias", default=False)
    return replace(base_shape(config), qkv_bias=bias, output_bias=bias, mlp_bias=mlp_bias)


ARCHITECTURE = Architecture(
    read=read,
    token_classification=True,
    vllm_second_runner_since="0.23.0",
    bridge_fuses_activation=True,
    bridge_fuses_rotary=True,
)
