"""Activations that a pass keeps or needs, in bytes per token of one GPU.

Symbols: :math:`H` hidden, :math:`I` MLP width, :math:`q` and :math:`k` the summed widths of query
and key heads, :math:`b` bytes of the compute dtype; norms upcast to float32. Attention is flash
attention: nothing is quadratic in the sequence.
"""

from tuner.dtypes import DType
from tuner.model_shape import ModelShape, QueryKeyNorm
from tuner.workload import Backend, Engine

_FLOAT32 = DType.FLOAT32.bytes
# An allowance, not a count: ids, positions, labels, masks, advantages and losses of one token, some
# seventeen numbers of up to 8 bytes. It is below 0.2 % of every measured peak.
TOKEN_BYTES = 17 * 8


def _fused(engine: Engine) -> bool:
    """Whether norms and activations recompute from their inputs: Liger, and Megatron's own layers."""
    return engine.fused_layers or engine.backend is Backend.MEGATRON


def _query_width(model: ModelShape) -> int:
    return model.heads * model.head_dim


def _value_width(model: ModelShape) -> int:
    return model.heads * (model.latent.v_head_dim if model.latent else model.head_dim)


def norm_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""One normalisation over the hidden width, saved for its backward pass.

    .. math:: (4 + b + b) \, H

    The float32 copy of the input, the normalised values and the output. Liger's kernel and
    Megatron's fused layers recompute from the input and keep :math:`2 b H`. Under LoRA the norm's
    weight is frozen, and nothing needs the normalised values: :math:`(4 + b) \, H`.

    Source: transformers ``LlamaRMSNorm``; Liger ``ops/rms_norm.py``.
    """
    compute = engine.compute_dtype.bytes
    if _fused(engine):
        return 2 * compute * model.hidden
    if engine.lora is not None:
        return (_FLOAT32 + compute) * model.hidden
    return (_FLOAT32 + 2 * compute) * model.hidden


def attention_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""One attention block: queries, keys, values, output and the softmax statistics.

    .. math:: b \, (2 q + 2 k) + 4 \, h

    Rotary embedding and projections save nothing more, because their inputs are saved already.
    A query/key norm adds a float32 copy and the normalised values; latent attention adds the
    compressed vectors and expands keys to all heads.
    """
    compute = engine.compute_dtype.bytes
    query, value = _query_width(model), _value_width(model)
    statistics = _FLOAT32 * model.heads
    if model.latent is not None:
        compressed = model.latent.kv_lora_rank + (model.latent.q_lora_rank or 0)
        latent_norms = (_FLOAT32 + 2 * compute) * compressed
        return compute * (2 * query + 2 * value) + statistics + latent_norms
    key = model.kv_heads * model.head_dim
    saved = compute * (query + value + 2 * key) + statistics
    if model.qk_norm is not QueryKeyNorm.NONE:
        saved += (_FLOAT32 + compute) * (query + key)
    return saved


def linear_attention_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""One linear-attention block: inputs and outputs of the convolution, gates and output.

    .. math:: b \, (2 w_c + 3 w_v)

    A coarse count; no measurement stands behind it.
    """
    if model.linear is None:
        return 0
    return engine.compute_dtype.bytes * (2 * model.linear.conv_width + 3 * model.linear.value_width)


def mlp_saved_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""One MLP: gate, its activation, up and their product.

    .. math:: 4 \, b \, I

    Liger's kernel and Megatron recompute the activation (3 instead of 4); an MLP without a gate keeps 2. A
    sparse layer runs every token through its experts: :math:`I` is the width of the experts per
    token and the shared ones together, and each routed copy keeps its input and output.
    """
    compute = engine.compute_dtype.bytes
    tensors = (3 if _fused(engine) else 4) if model.gated_mlp else 2
    moe = model.moe
    if moe is None or not model.is_sparse(layer):
        return tensors * compute * model.intermediate
    width = moe.experts_per_token * moe.expert_intermediate + moe.shared_intermediate
    routed_copies = 2 * compute * moe.experts_per_token * model.hidden
    router = 2 * _FLOAT32 * moe.experts
    return tensors * compute * width + routed_copies + router


def layer_saved_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    """Everything one decoder layer saves per token when nothing is recomputed."""
    mixer = (
        linear_attention_saved_bytes(model, engine)
        if model.is_linear(layer)
        else attention_saved_bytes(model, engine)
    )
    norms = model.norms_per_layer * norm_saved_bytes(model, engine)
    return norms + mixer + mlp_saved_bytes(model, engine, layer)


def layer_input_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The input of one layer, all that gradient checkpointing keeps of it: :math:`b H`."""
    return engine.compute_dtype.bytes * model.hidden


def largest_layer_saved_bytes(model: ModelShape, engine: Engine) -> int:
    """The layer that saves the most per token."""
    kinds = {(model.is_linear(i), model.is_sparse(i)): i for i in range(model.layers)}
    return max(layer_saved_bytes(model, engine, layer) for layer in kinds.values())


def all_layers_saved_bytes(model: ModelShape, engine: Engine) -> int:
    """All layers together, nothing recomputed."""
    by_kind: dict[tuple[bool, bool], list[int]] = {}
    for layer in range(model.layers):
        by_kind.setdefault((model.is_linear(layer), model.is_sparse(layer)), []).append(layer)
    return sum(len(layers) * layer_saved_bytes(model, engine, layers[0]) for layers in by_kind.values())


def layer_forward_bytes(model: ModelShape, engine: Engine) -> int:
    r"""What one layer needs at once in a forward pass without gradients.

    .. math:: b \, (3 I + 4 H)

    Activated gate, up and product, beside residual, normalised input and two copies in flight.
    """
    compute = engine.compute_dtype.bytes
    return compute * (3 * _widest_mlp(model) + 4 * model.hidden)


def layer_backward_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Gradients in flight in one layer's backward pass, on top of what the layer saved.

    .. math:: b \, (2 I + 2 H)

    Those of the activated gate and of up, and of the layer's output and input.
    """
    return engine.compute_dtype.bytes * (2 * _widest_mlp(model) + 2 * model.hidden)


def _widest_mlp(model: ModelShape) -> int:
    moe = model.moe
    if moe is None:
        return model.intermediate
    sparse = moe.experts_per_token * moe.expert_intermediate + moe.shared_intermediate
    return max(sparse, model.intermediate if moe.dense_layers else 0)


def final_norm_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The final norm, whose output is what the output projection keeps.

    Under LoRA norm and projection are frozen: no gradient of theirs needs the normalised values or
    the output, and the float32 copy of the input is left, :math:`4 H`.
    """
    if engine.lora is not None and not _fused(engine):
        return _FLOAT32 * model.hidden
    return norm_saved_bytes(model, engine)


def shared_token_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Per token, once for all layers: the rotary tables and the batch itself.

    .. math:: 2 \, b \, d + 136
    """
    rotary = model.latent.qk_rope_head_dim if model.latent else model.head_dim
    return 2 * engine.compute_dtype.bytes * rotary + TOKEN_BYTES
