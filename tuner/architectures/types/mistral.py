"""Mistral."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.config import Config
from tuner.architectures.parts import base_shape, with_windows
from tuner.model_shape import ModelShape


def read(config: Config) -> ModelShape:
    """Mistral: no biases; a window in every layer unless the file says null."""
    return with_windows(base_shape(config, grouped=True), config, lambda layer: True)


ARCHITECTURE = Architecture(read=read, token_classification=True, vllm_second_runner_since="0.23.0")
