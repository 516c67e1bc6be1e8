"""The dimensions of a model that no reader of :mod:`tuner.models` knows, for the rest of the estimate.

Parameters and activations of such a model are counted; what is left are the widths that the rollout's cache
and the time depend on. They come from the configuration, by the names that transformers gives them, and
from what the layers were seen to cache.
"""

from collections.abc import Sequence
from typing import Any

import torch
from msgspec.structs import replace

from tuner.architectures.config import Config
from tuner.architectures.parts import base_shape, with_moe
from tuner.errors import UnsupportedError
from tuner.language import _
from tuner.model_shape import LatentAttention, ModelShape
from tuner.trace.kv_cache import LayerCache
from tuner.trace.structure import Structure, routed_experts, routed_parameters, shared_parameters

# transformers translates a type's own names (n_embd, ffn_dim) to the first of these.
_KEYS = (
    "hidden_size",
    "head_dim",
    "intermediate_size",
    "kv_lora_rank",
    "max_position_embeddings",
    "moe_intermediate_size",
    "num_attention_heads",
    "num_experts_per_tok",
    "num_hidden_layers",
    "num_key_value_heads",
    "q_lora_rank",
    "qk_nope_head_dim",
    "qk_rope_head_dim",
    "rope_parameters",
    "rope_scaling",
    "tie_word_embeddings",
    "v_head_dim",
    "vocab_size",
)


def dimensions(
    text: Any, built: Structure, layers: Sequence[torch.nn.Module], caches: Sequence[LayerCache], source: str
) -> ModelShape:
    """The shape of an unknown type; its parameters are overridden by the counted ones.

    Args:
        text: transformers' configuration of the language part.
        built: what the model consists of.
        layers: the first layer of every kind.
        caches: what they cache.
        source: for messages.

    Raises:
        InputError: a key is missing.
        UnsupportedError: what the layers cache is not of a kind that is modelled.
    """
    config = Config(values={key: getattr(text, key, None) for key in _KEYS}, source=source)
    shape = _with_cache(base_shape(config), config, caches)
    shape = replace(shape, hidden=built.hidden, vocab=built.vocab, tied_embeddings=built.tied)
    shape = _with_windows(shape, built, caches)
    sparse = [bool(routed_parameters(layer)) for layer in layers]
    if not any(sparse):
        config.size("intermediate_size")
        return shape
    dense = tuple(index for index, kind in enumerate(built.kind_of_layer) if not sparse[kind])
    return _with_experts(shape, config, layers[sparse.index(True)], dense)


def _with_cache(shape: ModelShape, config: Config, caches: Sequence[LayerCache]) -> ModelShape:
    if config.values["kv_lora_rank"] is not None:
        # Engines cache the compressed keys and values, whatever transformers does.
        latent = LatentAttention(
            q_lora_rank=config.optional_size("q_lora_rank"),
            kv_lora_rank=config.size("kv_lora_rank"),
            qk_nope_head_dim=config.size("qk_nope_head_dim"),
            qk_rope_head_dim=config.size("qk_rope_head_dim"),
            v_head_dim=config.size("v_head_dim"),
        )
        width = latent.qk_nope_head_dim + latent.qk_rope_head_dim
        return replace(shape, latent=latent, head_dim=width, kv_heads=shape.heads)
    kinds = {(cache.key_heads, cache.key_width, cache.value_heads, cache.value_width) for cache in caches}
    key_heads, key_width, value_heads, value_width = kinds.pop()
    if kinds or (key_heads, key_width) != (value_heads, value_width):
        raise UnsupportedError(
            _("layers whose keys and values differ in width are not modelled"), location=config.location
        )
    stated = (shape.kv_heads, shape.head_dim)
    if config.values["num_key_value_heads"] is not None and stated != (key_heads, key_width):
        raise config.error(
            "num_key_value_heads",
            _("{heads} heads of {width} are stated, the layers cache {key_heads} of {key_width}").format(
                heads=stated[0], width=stated[1], key_heads=key_heads, key_width=key_width
            ),
        )
    return replace(shape, kv_heads=key_heads, head_dim=key_width)


def _with_windows(shape: ModelShape, built: Structure, caches: Sequence[LayerCache]) -> ModelShape:
    windows = {cache.window for cache in caches} - {None}
    if len(windows) > 1:
        raise UnsupportedError(_("layers with attention windows of several sizes are not modelled"))
    windowed = sum(caches[kind].window is not None for kind in built.kind_of_layer)
    return replace(shape, sliding_window=windows.pop() if windows else None, windowed_layers=windowed)


def _with_experts(
    shape: ModelShape, config: Config, layer: torch.nn.Module, dense: tuple[int, ...]
) -> ModelShape:
    experts = routed_experts(layer)
    width = config.size("moe_intermediate_size", "intermediate_size")
    matrices = routed_parameters(layer) // (experts * width * shape.hidden)
    if not 2 <= matrices <= 3:
        raise config.error(
            "moe_intermediate_size",
            _("{experts} experts of this width have other parameters than counted").format(experts=experts),
        )
    return with_moe(
        replace(shape, gated_mlp=matrices == 3),
        config,
        experts=experts,
        width=width,
        shared=shared_parameters(layer) // (matrices * shape.hidden),
        dense_layers=dense,
    )
