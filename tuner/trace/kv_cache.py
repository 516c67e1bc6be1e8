"""What every decoder layer caches: counted by running the model once on fake tensors."""

from collections.abc import Sequence
from typing import Any

import torch
from msgspec import Struct
from torch._subclasses.fake_tensor import FakeTensorMode

from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.trace.count import decoder_layers, pass_through, text_decoder

_TOKENS = 16


class LayerCache(Struct, frozen=True, kw_only=True):
    """Keys and values of one layer, per token."""

    key_heads: int
    key_width: int  # of one head
    value_heads: int
    value_width: int
    window: int | None  # tokens that are kept; None: all


def layer_caches(config: Any, layers: Sequence[int]) -> tuple[LayerCache, ...]:
    """What these decoder layers cache; the others are left out of the run.

    Raises:
        UnsupportedError: a layer keeps something else than keys and values of every token.
    """
    import transformers

    with FakeTensorMode(), torch.device("cpu"), torch.no_grad():
        model = text_decoder(config)
        decoder = decoder_layers(model)
        for index, layer in enumerate(decoder):
            if index not in layers:
                layer.forward = pass_through
        cache = transformers.DynamicCache(config=config.get_text_config())
        model(input_ids=torch.zeros(1, _TOKENS, dtype=torch.long), past_key_values=cache, use_cache=True)
    if len(cache.layers) != len(decoder):
        raise UnsupportedError(
            _("{decoder} layers share {layers} caches; this is not traced").format(
                decoder=len(decoder), layers=len(cache.layers)
            )
        )
    return tuple(_read(cache.layers[index], index) for index in layers)


def _read(layer: Any, index: int) -> LayerCache:
    keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
    if keys is None or values is None or keys.dim() != 4 or values.dim() != 4:
        raise UnsupportedError(
            _(
                "decoder layer {index} keeps a state ({name}) instead of keys and values, which is not traced"
            ).format(index=index, name=type(layer).__name__)
        )
    return LayerCache(
        key_heads=keys.shape[1],
        key_width=keys.shape[3],
        value_heads=values.shape[1],
        value_width=values.shape[3],
        window=getattr(layer, "sliding_window", None),
    )
