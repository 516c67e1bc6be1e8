"""Counts a whole model: builds it without weights, tells its layers apart and counts one of each kind."""

import copy
from typing import Any

import torch
from msgspec.structs import replace

from tuner.architectures import find_architecture
from tuner.architectures.config import Config
from tuner.model_shape import ModelShape
from tuner.models import FoundConfig, shape_from_config
from tuner.trace.build import language_model, model_config, versions
from tuner.trace.count import decoder_layers
from tuner.trace.dimensions import dimensions
from tuner.trace.head import final_norm_saved_bytes, logit_copies
from tuner.trace.kv_cache import layer_caches
from tuner.trace.layers import adapted_bytes, trained_bytes
from tuner.trace.structure import Structure, layer_signatures, linears, routed_parameters, structure
from tuner.traced_layers import TracedLayer, TracedModel


def count_model(config_json: FoundConfig) -> ModelShape:
    """The dimensions of a model, with its parameters and activations counted.

    Raises:
        InputError: a key is missing.
        UnsupportedError: transformers does not implement the type, or its implementation does not do what
            the counts presuppose.
    """
    config = model_config(config_json)
    text = config.get_text_config()
    stated = Config(values={"num_hidden_layers": text.num_hidden_layers}, source=config_json.source)
    stated.layers("num_hidden_layers")  # a typo must not build layers for hours
    with torch.device("meta"):
        model = language_model(config)
    built = structure(model)
    layers = [decoder_layers(model.get_decoder())[first] for first in built.first_of_kind]
    short = _with_layers(config, model, max(built.first_of_kind) + 1)
    caches = layer_caches(short, built.first_of_kind)
    model_type = config_json.values["model_type"]
    if find_architecture(model_type).read is not None:
        shape = shape_from_config(config_json.values, name=config_json.name, source=config_json.source)
    else:
        shape = replace(
            dimensions(text, built, layers, caches, config_json.source),
            architecture=model_type,
        )
    kinds = tuple(
        _layer(short, index, layer) for index, layer in zip(built.first_of_kind, layers, strict=True)
    )
    return replace(
        shape,
        position_parameters=0,  # counted outside the layers
        extra_parameters=built.extra,
        logit_copies=logit_copies(short),
        traced=_traced(built, kinds, short),
    )


def _with_layers(config: Any, model: Any, layers: int) -> Any:
    """The configuration with its first layers alone, which is quicker; as it is if they then differ."""
    short = copy.deepcopy(config)
    text = short.get_text_config()
    try:
        if getattr(text, "layer_types", None) is not None:
            text.layer_types = text.layer_types[:layers]
        text.num_hidden_layers = layers
        with torch.device("meta"):
            alike = layer_signatures(language_model(short)) == layer_signatures(model)[:layers]
    except Exception:  # a configuration that does not let itself be shortened
        return config
    return short if alike else config


def _layer(config: Any, index: int, layer: torch.nn.Module) -> TracedLayer:
    return TracedLayer(
        parameters=sum(weight.numel() for weight in layer.parameters()),
        routed_parameters=routed_parameters(layer),
        linears=linears(layer),
        trained=trained_bytes(config, index),
        adapted=adapted_bytes(config, index),
    )


def _traced(built: Structure, kinds: tuple[TracedLayer, ...], config: Any) -> TracedModel:
    torch_version, transformers_version = versions()
    return TracedModel(
        kinds=kinds,
        kind_of_layer=built.kind_of_layer,
        embedding_parameters=built.embedding,
        head_parameters=built.head,
        other_parameters=built.other,
        final_norm_saved=final_norm_saved_bytes(config, frozen=False),
        final_norm_frozen=final_norm_saved_bytes(config, frozen=True),
        torch=torch_version,
        transformers=transformers_version,
    )
