"""Models: bundled profiles by name, Hugging Face ``config.json`` by path."""

from tuner.models.architectures import model_types, shape_from_config
from tuner.models.library import find_model, model_names

__all__ = ["find_model", "model_names", "model_types", "shape_from_config"]
