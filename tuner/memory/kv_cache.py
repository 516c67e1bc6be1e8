"""Keys and values that the rollout engine caches."""

from math import ceil

from tuner.model_shape import ModelShape
from tuner.workload import Rollout


def kv_bytes_per_token_and_layer(model: ModelShape, rollout: Rollout) -> int:
    r"""Cache of one token in one layer on one GPU.

    .. math:: 2 \, \max(1, \lceil h_{kv} / T_p \rceil) \, d \, b

    Heads are replicated when there are fewer of them than GPUs. Latent attention caches
    :math:`(r_{kv} + d_{rope}) \, b` on every GPU, whatever the tensor-parallel size.
    """
    if model.latent is not None:
        return model.kv_values_per_token * rollout.kv_dtype.bytes
    heads = max(1, ceil(model.kv_heads / rollout.tensor_parallel))
    return 2 * heads * model.head_dim * rollout.kv_dtype.bytes


def kv_bytes_per_token(model: ModelShape, rollout: Rollout) -> int:
    """All cached layers of one GPU, no window taken into account."""
    layers = ceil(model.cached_layers / rollout.pipeline_parallel)
    return layers * kv_bytes_per_token_and_layer(model, rollout)


def kv_bytes_per_sequence(model: ModelShape, rollout: Rollout, tokens: int) -> int:
    r"""Cache of one sequence of :math:`S` tokens on one GPU.

    .. math:: k \, (L_{full} \, S + L_{window} \, \min(S, w)) + L_{linear} \, s

    Layers with a sliding window :math:`w` stop growing there; linear-attention layers keep a state
    of fixed size :math:`s` instead, divided over the tensor-parallel ranks.
    """
    per_layer = kv_bytes_per_token_and_layer(model, rollout)
    windowed = model.windowed_layers if model.sliding_window else 0
    window_tokens = min(tokens, model.sliding_window or tokens)
    full = model.cached_layers - windowed
    cached = per_layer * (full * tokens + windowed * window_tokens)
    linear_layers = model.layers - model.cached_layers
    state = linear_layers * model.state_values_per_sequence * rollout.kv_dtype.bytes
    return ceil((cached + state / rollout.tensor_parallel) / rollout.pipeline_parallel)
