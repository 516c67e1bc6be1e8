"""Models: bundled profiles by name, Hugging Face ``config.json`` by path."""

from tuner.models.library import (
    FoundConfig,
    bundled,
    config_file,
    find_config,
    find_model,
    model_names,
    named_within,
)
from tuner.models.shape import shape_from_config

__all__ = [
    "FoundConfig",
    "bundled",
    "config_file",
    "find_config",
    "find_model",
    "model_names",
    "named_within",
    "shape_from_config",
]
