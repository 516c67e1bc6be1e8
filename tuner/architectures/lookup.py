"""Finds what is known of a ``model_type``: in the module of that name, and only that one is imported."""

from functools import cache, lru_cache
from importlib import import_module
from pkgutil import iter_modules

from tuner.architectures import types
from tuner.architectures.architecture import Architecture
from tuner.architectures.layer_traits import LayerTraits


@cache
def _names() -> frozenset[str]:
    return frozenset(module.name for module in iter_modules(types.__path__))


@lru_cache(maxsize=256)
def find_architecture(model_type: str) -> Architecture:
    """What is known of a type of model; of one that is not here, what is assumed of any."""
    if model_type not in _names():
        return Architecture()
    architecture: Architecture = import_module(f"{types.__name__}.{model_type}").ARCHITECTURE
    return architecture


@lru_cache(maxsize=256)
def layer_traits(model_type: str) -> LayerTraits:
    """How transformers computes a layer of this type; as Llama's where nothing else is known."""
    return find_architecture(model_type).layer


def model_types() -> tuple[str, ...]:
    """The values of ``model_type`` that can be read."""
    return tuple(sorted(name for name in _names() if find_architecture(name).read is not None))
