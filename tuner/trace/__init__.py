"""A model's parameters and activations, counted in transformers' implementation instead of derived.

Nothing here imports torch or transformers before a count is due: a cached one needs neither.
"""

from msgspec.structs import replace

from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.models import FoundConfig
from tuner.trace import count_cache
from tuner.trace.build import at_work, versions

__all__ = ["trace_model"]


def trace_model(config_json: FoundConfig) -> ModelShape:
    """The dimensions of a model with its parameters and activations counted, or cached from an earlier run.

    Args:
        config_json: the configuration; its model type need not be one that :mod:`tuner.models` knows, but one
            that transformers implements.

    Raises:
        InputError: torch or transformers is not installed, or a key is missing.
        UnsupportedError: transformers does not implement the type, or its implementation does not do what
            the counts presuppose.
    """
    torch, transformers = versions()
    file = count_cache.file_of(config_json.values, torch=torch, transformers=transformers)
    shape = count_cache.read(file)
    if shape is None:
        with at_work(config_json.source):
            from tuner.trace.model import count_model

            shape = count_model(config_json)
        count_cache.write(file, shape)
    own = _("; its auto_map is not used") if "auto_map" in config_json.values else ""
    source = _("{source}; traced with transformers {transformers} and torch {torch}{own}").format(
        source=config_json.source, transformers=transformers, torch=torch, own=own
    )
    return replace(shape, name=config_json.name, source=source)
