"""Models: bundled profiles by name, Hugging Face ``config.json`` by path."""

from tuner.models.architectures import model_types, shape_from_config
from tuner.models.library import FoundConfig, find_config, find_model, model_names
from tuner.models.value_head import has_token_classification

__all__ = [
    "FoundConfig",
    "find_config",
    "find_model",
    "has_token_classification",
    "model_names",
    "model_types",
    "shape_from_config",
]
