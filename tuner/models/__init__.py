"""Models: bundled profiles by name, Hugging Face ``config.json`` by path."""

from tuner.models.library import FoundConfig, find_config, find_model, model_names
from tuner.models.shape import shape_from_config

__all__ = [
    "FoundConfig",
    "find_config",
    "find_model",
    "model_names",
    "shape_from_config",
]
