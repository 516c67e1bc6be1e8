"""Models cut to their first layers."""

from collections.abc import Mapping
from typing import Any

_COUNTS = ("num_hidden_layers", "n_layer")
_INDICES = ("mlp_only_layers",)  # keys that list layers by their index


def cut_config(config: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """A ``config.json`` with its first layers alone; what it lists for every layer is cut as well.

    Of a model with a decoder among its parts it is the decoder that is cut.
    """
    if not any(config.get(key) is not None for key in _COUNTS) and "text_config" in config:
        return {**config, "text_config": cut_config(config["text_config"], layers)}
    count = next(config[key] for key in _COUNTS if config.get(key) is not None)
    cut = {key: _cut(key, value, count, layers) for key, value in config.items()}
    return cut | {key: layers for key in _COUNTS if config.get(key) is not None}


def _cut(key: str, value: Any, count: int, layers: int) -> Any:
    if not isinstance(value, list):
        return value
    if key in _INDICES:
        return [index for index in value if index < layers]
    return value[:layers] if len(value) == count else value
