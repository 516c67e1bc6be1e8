r"""Keys and values that the rollout engine caches, and the states of linear attention.

Symbols: :math:`k` bytes of one token in one layer on one GPU, :math:`L` layers, :math:`S` tokens of
a sequence, :math:`w` the sliding window, :math:`B_t` tokens of a block, :math:`T_p`, :math:`P_p` the
engine's tensor- and pipeline-parallel sizes, :math:`b` bytes of the cache's dtype.
"""

from math import ceil

from msgspec import Struct

from tuner.dtypes import DType
from tuner.model_shape import ModelShape
from tuner.workload import Rollout, RolloutEngine

_FLOAT32 = DType.FLOAT32.bytes
_SCALED = 128  # values of an indexer's key that share one scale
_PADDED_UP_TO = 1.5  # times the smaller kind of layers: below, vLLM pads these instead of the larger kind


class CachedLayers(Struct, frozen=True, kw_only=True):
    """Layers of one GPU that have a KV cache, by kind, with the layers that only pad a group."""

    full: int
    windowed: int


def kv_bytes_per_token_and_layer(model: ModelShape, rollout: Rollout) -> int:
    r"""Cache of one token in one layer on one GPU, :math:`k`.

    .. math:: 2 \, \max(1, \lceil h_{kv} / T_p \rceil) \, d \, b

    Heads are replicated when there are fewer of them than GPUs. Latent attention caches
    :math:`(r_{kv} + d_{rope}) \, b` on every GPU, whatever the tensor-parallel size: only
    data-parallel attention divides its cache, because each of its ranks holds other sequences.
    Scales of an fp8 cache are one number per layer and are not counted.

    Source: vLLM ``v1/kv_cache_interface.py`` (``FullAttentionSpec``, ``MLAAttentionSpec``), SGLang
    ``mem_cache/memory_pool.py`` (``MHATokenToKVPool``, ``MLATokenToKVPool``).
    """
    if model.latent is not None:
        return model.kv_values_per_token * rollout.kv_dtype.bytes
    heads = max(1, ceil(model.kv_heads / rollout.tensor_parallel))
    return 2 * heads * model.head_dim * rollout.kv_dtype.bytes


def kv_bytes_per_token(model: ModelShape, rollout: Rollout) -> int:
    """All cached layers of one GPU, no window taken into account."""
    layers = ceil(model.cached_layers / rollout.pipeline_parallel)
    return layers * kv_bytes_per_token_and_layer(model, rollout) + indexer_bytes_per_token(model, rollout)


def indexer_bytes_per_token(model: ModelShape, rollout: Rollout) -> int:
    r"""Keys by which sparse attention chooses, of one token in all layers of one GPU.

    .. math:: \lceil L_i / P_p \rceil \left(d_i + 4 \lceil d_i / 128 \rceil\right)

    One fp8 key of width :math:`d_i` with a float32 scale per 128 values, in each of the :math:`L_i`
    layers that choose; whole on every GPU, whatever the dtype of the other cache. 0 without.

    Source: vLLM ``model_executor/models/deepseek_v2.py`` (``DeepseekV32IndexerCache``), SGLang
    ``mem_cache/memory_pool.py`` (``index_k_with_scale_buffer``).
    """
    if model.indexer is None:
        return 0
    width = model.indexer.head_dim
    layers = ceil(len(model.indexer.layers) / rollout.pipeline_parallel)
    return layers * (width + _FLOAT32 * ceil(width / _SCALED))


def cached_layers(model: ModelShape, rollout: Rollout) -> CachedLayers:
    r"""Layers by kind of cache, with the padding of vLLM's groups.

    .. math::
        g = \min(L_{full}, L_{window}), \qquad
        L' = g \, \lceil L / g \rceil \;\text{for each kind}

    vLLM gives out memory in blocks for groups of :math:`g` layers of one kind, so that any group can
    use any block; a last group that is not full is padded. Where one kind has less than 1.5 times the
    layers of the other, :math:`g` is the larger number instead. Engines and releases that do not free
    what left the window cache these layers like any other.

    Source: vLLM ``v1/core/kv_cache_utils.py`` (``_get_kv_cache_groups_uniform_page_size``).
    """
    stages = rollout.pipeline_parallel
    windowed = model.windowed_layers if model.sliding_window and rollout.frees_windows else 0
    full = model.cached_layers - windowed
    if rollout.engine is RolloutEngine.VLLM and full and windowed:
        few, many = sorted((full, windowed))
        group = many if many < few * _PADDED_UP_TO else few
        full, windowed = group * ceil(full / group), group * ceil(windowed / group)
    return CachedLayers(full=ceil(full / stages), windowed=ceil(windowed / stages))


def state_bytes_per_layer(model: ModelShape, rollout: Rollout) -> int:
    r"""State of one linear-attention layer for one sequence on one GPU, whatever its length.

    .. math:: (b_m \, h_v \, d_k \, d_v + b \, c \, (q - 1)) / T_p

    A matrix :math:`d_k \times d_v` for each of the :math:`h_v` value heads, in the dtype of the states
    (:math:`b_m`), and the :math:`q - 1` last inputs of the short convolution over :math:`c` channels.
    An fp8 cache does not shrink it.

    Source: vLLM ``model_executor/layers/mamba/mamba_utils.py`` (``gated_delta_net_state_shape``,
    ``gated_delta_net_state_dtype``), SGLang ``configs/mamba_utils.py``.
    """
    linear = model.linear
    if linear is None:
        return 0
    matrices = linear.value_heads * linear.key_head_dim * linear.value_head_dim
    inputs = linear.conv_width * (linear.conv_kernel - 1)
    size = matrices * rollout.state_dtype.bytes + inputs * DType.BFLOAT16.bytes
    return ceil(size / rollout.tensor_parallel)


def block_tokens(model: ModelShape, rollout: Rollout) -> int:
    r"""Tokens of one block, :math:`B_t`.

    .. math:: B_t \, \lceil s / (B_t \, k) \rceil

    vLLM keeps the states :math:`s` of linear attention in blocks of the same pool, and makes the blocks
    of attention so long that a state fits into one.

    Source: vLLM ``model_executor/models/config.py`` (``HybridAttentionMambaModelConfig``).
    """
    state = state_bytes_per_layer(model, rollout)
    if not state or rollout.engine is not RolloutEngine.VLLM:
        return rollout.block_tokens
    one = rollout.block_tokens * kv_bytes_per_token_and_layer(model, rollout)
    return rollout.block_tokens * ceil(state / one)


def kv_bytes_per_sequence(model: ModelShape, rollout: Rollout, tokens: int, *, prefilled: int = 0) -> int:
    r"""Cache of one sequence of :math:`S` tokens on one GPU.

    .. math::
        k \, B_t \left( L_{full} \left\lceil \frac{S}{B_t} \right\rceil
        + L_{window} \left\lceil \frac{\min(S, w)}{B_t} \right\rceil \right) + L_{linear} \, s

    Whole blocks, and as many of :func:`indexer_bytes_per_token`. Layers with a sliding window stop
    growing there, but while a prompt is read they hold ``prefilled`` new tokens beyond the window. A
    window may begin and end within a block: one more.

    Source: vLLM ``v1/kv_cache_interface.py`` (``max_memory_usage_bytes`` of the specs).
    """
    per_layer, block = kv_bytes_per_token_and_layer(model, rollout), block_tokens(model, rollout)
    layers = cached_layers(model, rollout)
    blocks = layers.full * ceil(tokens / block)
    if layers.windowed and model.sliding_window:
        window_tokens = min(tokens, model.sliding_window + prefilled)
        inside = ceil(window_tokens / block) + (window_tokens < tokens)
        blocks += layers.windowed * inside
    states = ceil(model.linear_layers / rollout.pipeline_parallel)
    linear = states * _state_block(model, rollout, block * per_layer)
    chosen_by = ceil(tokens / block) * block * indexer_bytes_per_token(model, rollout)
    return blocks * block * per_layer + chosen_by + linear


def _state_block(model: ModelShape, rollout: Rollout, block_bytes: int) -> int:
    """What one state occupies: a whole block in vLLM."""
    state = state_bytes_per_layer(model, rollout)
    return max(state, block_bytes) if state and rollout.engine is RolloutEngine.VLLM else state
