"""Architectures of models: all that is keyed by a ``config.json``'s ``model_type``, one module for each."""

from tuner.architectures.architecture import Architecture
from tuner.architectures.layer_traits import LayerTraits
from tuner.architectures.lookup import find_architecture, layer_traits, model_types

__all__ = ["Architecture", "LayerTraits", "find_architecture", "layer_traits", "model_types"]
