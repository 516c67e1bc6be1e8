"""The model that an option or a key names, derived or traced."""

from tuner.model_shape import ModelShape
from tuner.models import find_config, find_model


def model_shape(path: str, *, trace: bool) -> ModelShape:
    """The dimensions of a model; with ``trace`` its parameters and activations are counted.

    Raises:
        InputError: nothing is known under this name, or torch or transformers is missing for a trace.
        UnsupportedError: the model is of a type that is not modelled, or cannot be traced.
    """
    if not trace:
        return find_model(path)
    from tuner.trace import trace_model

    return trace_model(find_config(path))
