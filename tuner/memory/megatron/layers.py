r"""Activations of one layer as Transformer Engine and Megatron-Core keep them.

Bytes per token of the rank's tokens, *before* tensor parallelism, which divides all of them: heads
and MLP columns by the projections, norms and the residual stream by sequence parallelism. verl
turns that on wherever :math:`T_p > 1`, in every release. What is not divided is counted
:math:`T_p` times: rotary tables, and the gathered inputs and outputs of the projections, see
:func:`~tuner.memory.megatron.layers.backward_sizes`.

Symbols: :math:`H` hidden, :math:`q`, :math:`k`, :math:`v` the summed widths of query, key and value
heads, :math:`h` heads, :math:`I` MLP width, :math:`b` bytes of the compute dtype, :math:`K` experts
per token, :math:`I_e` width of one expert, :math:`T_e` expert-tensor parallel size.

Source: Transformer Engine ``pytorch/module/layernorm_linear.py``, ``linear.py``,
``grouped_linear.py``; Megatron-Core ``transformer/attention.py``, ``transformer/mlp.py``,
``fusions/fused_bias_swiglu.py``, ``transformer/moe/``.
"""

from math import ceil

from msgspec import Struct

from tuner.dtypes import DType
from tuner.memory.layer.activations import mixer_inside_bytes
from tuner.memory.layer.attention import linear_attention_saved_bytes
from tuner.model_shape import LatentAttention, MixtureOfExperts, ModelShape, QueryKeyNorm
from tuner.workload import Engine

_FLOAT32 = DType.FLOAT32.bytes
_INDEX = 8  # torch.topk's indices

#: By how much the fullest expert of a balanced model exceeds the mean load, see :func:`imbalance_bytes`.
MAX_VIOLATION = 0.72


def norm_bytes(width: int, engine: Engine) -> int:
    r"""A norm fused with the projection behind it: its input, its output, one statistic.

    .. math:: 2 \, b \, H + 4

    The projection needs the output for the gradient of its weight; gathering it again in the
    backward pass spares the whole copy.

    Source: Transformer Engine ``layernorm_linear.py`` (``tensors_to_save``).
    """
    return 2 * engine.compute_dtype.bytes * width + _FLOAT32


def attention_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Softmax attention between its norm and its output projection.

    .. math:: b \, (q + k + 2 v) + 4 h \qquad\text{and with a query/key norm}\qquad b \, (q + k) + 4 (h + h_k)

    Rotated queries and keys, values copied out of the joint projection, the output, which is the
    input of the output projection, and the softmax statistics. The joint projection's own output is
    freed; a norm of queries and keys keeps the copies that it read.

    Source: Megatron-Core ``transformer/attention.py`` (``get_query_key_value_tensors``), Transformer
    Engine ``dot_product_attention/utils.py`` (``get_qkv_layout`` makes the three contiguous).
    """
    if model.latent is not None:
        return latent_attention_bytes(model, model.latent, engine)
    compute = engine.compute_dtype.bytes
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    bytes_per_token = compute * (2 * query + 2 * key) + _FLOAT32 * model.heads
    if model.qk_norm is not QueryKeyNorm.NONE:
        bytes_per_token += compute * (query + key) + _FLOAT32 * (model.heads + model.kv_heads)
    return bytes_per_token


def latent_attention_bytes(model: ModelShape, latent: LatentAttention, engine: Engine) -> int:
    r"""Latent attention: two compressed vectors with their norms, and attention over all heads.

    .. math:: b \, (2 q + 2 v) + 4 h + b \, (2 r_q + 2 r_{kv} + d_r) + 8

    Keys are expanded to all heads, as wide as queries.

    Source: Megatron-Core ``transformer/multi_latent_attention.py``, verl ``models/mcore/patch.py``.
    """
    compute = engine.compute_dtype.bytes
    query, value = model.heads * model.head_dim, model.heads * latent.v_head_dim
    compressed = norm_bytes(latent.kv_lora_rank, engine) + compute * latent.qk_rope_head_dim
    if latent.q_lora_rank is not None:
        compressed += norm_bytes(latent.q_lora_rank, engine)
    return compute * (2 * query + 2 * value) + _FLOAT32 * model.heads + compressed


def rotary_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The rotary tables that one layer keeps, the same on every tensor-parallel rank.

    .. math:: 4 \, b \, d \, T_p

    Cosines and sines are computed anew for the queries and for the keys of each layer, in the
    compute dtype, and kept for the backward pass of the products. A fused kernel keeps none.

    Source: Megatron-Core ``models/common/embeddings/rope_utils.py`` (``_apply_rotary_pos_emb_bshd``).
    """
    if engine.fused_rotary:
        return 0
    width = model.head_dim if model.latent is None else model.latent.qk_rope_head_dim
    return 4 * engine.compute_dtype.bytes * width * engine.parallel.tensor


def activated_width(model: ModelShape, layer: int) -> int:
    """Width of what the second projection of an MLP reads, over all experts of a token."""
    moe = model.moe
    if moe is None or not model.is_sparse(layer):
        return model.intermediate
    return moe.experts_per_token * moe.expert_intermediate + moe.shared_intermediate


def mlp_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""A dense MLP: the joint gate and up projection, and the product.

    .. math:: 3 \, b \, I \;\text{(fused SwiGLU)} \qquad (4 + g_o) \, b \, I \;\text{(not fused)}

    Not fused, the activated gate is kept too, and since Megatron-Core 0.15 (:math:`g_o = 1`, else 0) what
    it multiplies: a copy to which an offset of 0 was added. Without a gate it is :math:`2 \, b \, I`.

    Source: Megatron-Core 0.12 to 0.18 ``transformer/mlp.py`` (``x_linear + self.config.glu_linear_offset``),
    ``fusions/fused_bias_swiglu.py`` (saves its input).
    """
    if model.moe is not None and model.is_sparse(layer):
        return experts_bytes(model, engine)
    return _gated(model, engine) * engine.compute_dtype.bytes * model.intermediate


def _gated(model: ModelShape, engine: Engine) -> int:
    if not model.gated_mlp:
        return 2
    return 3 if engine.fused_layers else 4 + engine.offsets_gated


def experts_bytes(model: ModelShape, engine: Engine) -> int:
    r"""A sparse layer: router, routed copies and shared experts.

    .. math:: 5 E_x + 12 K \;+\; K \, \bigl(b \, T_e H + 3 \, b \, I_e + 4\, T_e\bigr) \;+\; 3 \, b \, I_s

    The router keeps a float32 probability and a mask per expert and the chosen indices. After the
    all-to-all every rank is taken to hold as many copies as it sent: a balanced router. What an
    unbalanced one adds is the upper end of the activations, see
    :func:`~tuner.memory.megatron.layers.imbalance_bytes`. Expert
    tensor parallelism gathers the copies of its :math:`T_e` ranks. Each copy keeps the input of the
    experts, the joint projection and the product, which is already weighted: nothing is kept to
    merge the copies. Without fusion two more, :math:`5 \, b \, I_e`, and since Megatron-Core 0.15 one more
    than that, as in :func:`mlp_bytes`. A gate on the shared expert keeps that expert's output.

    Source: Megatron-Core ``transformer/moe/token_dispatcher.py`` (``MoEAlltoAllTokenDispatcher``),
    ``transformer/moe/experts.py`` (``TEGroupedMLP``), ``transformer/moe/moe_utils.py``.
    """
    moe = model.moe
    if moe is None:
        return 0
    compute = engine.compute_dtype.bytes
    router = (_FLOAT32 + 1) * moe.experts + (_FLOAT32 + _INDEX) * moe.experts_per_token
    shared = _gated(model, engine) * compute * moe.shared_intermediate
    if moe.shared_gate and moe.shared_intermediate:
        shared += compute * model.hidden
    return router + _routed_bytes(model, engine, moe) + shared


def _routed_bytes(model: ModelShape, engine: Engine, moe: MixtureOfExperts) -> int:
    """The routed copies of one token, see :func:`experts_bytes`."""
    compute, copies = engine.compute_dtype.bytes, engine.parallel.expert_tensor
    tensors = 3 if engine.fused_layers else 5 + engine.offsets_gated
    tensors = tensors if model.gated_mlp else 2
    routed = compute * (copies * model.routed_width + tensors * moe.expert_intermediate) + _FLOAT32 * copies
    return moe.experts_per_token * routed


def imbalance_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""What one layer may keep per token beyond :func:`layer_bytes` because its router is not balanced.

    .. math:: 0.72 \, K \, \bigl(b \, T_e H + 3 \, b \, I_e + 4\, T_e\bigr)

    With expert parallelism the rank whose experts are chosen more often receives more copies than it
    sends. 0.72 is by how much the load of the fullest expert exceeded the mean of a whole evaluation set
    in a model that an auxiliary loss balanced. It is a heuristic end: RL has no such loss, but starts
    from such a model, and a rank averages over several experts. Never more than all copies of all
    :math:`E_p` ranks. Nothing without expert parallelism: each rank then computes what it sends.

    Source: Wang et al. 2024, arXiv:2408.15664, table 2 (MaxVio of the 1B model with an auxiliary loss).
    """
    moe, ranks = model.moe, engine.parallel.expert
    if moe is None or ranks == 1 or not model.is_sparse(layer):
        return 0
    return ceil(min(MAX_VIOLATION, ranks - 1) * _routed_bytes(model, engine, moe))


def layer_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    """Everything one layer keeps per token when nothing is recomputed."""
    mixer, mlp = 0, 0
    if model.is_linear(layer):
        # Its input is the output of the norm, which is counted there.
        mixer = linear_attention_saved_bytes(model, engine) - engine.compute_dtype.bytes * model.hidden
    elif model.has_mixer(layer):
        mixer = attention_bytes(model, engine) + rotary_bytes(model, engine)
    if model.has_mlp(layer):
        mlp = mlp_bytes(model, engine, layer)
    return model.norms_per_layer * norm_bytes(model.hidden, engine) + mixer + mlp


class BackwardSizes(Struct, frozen=True, kw_only=True):
    """What the backward pass of one MLP adds to what the layer kept.

    ``activated``, ``gathered_output`` and ``gathered_input`` are bytes per token before tensor
    parallelism, ``second`` and ``first`` the weight gradients of the two projections on one rank.
    """

    activated: int
    gathered_output: int
    gathered_input: int
    second: int
    first: int


def backward_sizes(model: ModelShape, engine: Engine, layer: int) -> BackwardSizes:
    r"""Gradients in flight in the backward pass of one layer.

    The second projection reads the gathered gradient of its output and returns that of its input
    (:math:`b I`); the activation turns it into that of the joint projection (:math:`2 b I`, its own
    input still there); the first projection gathers its input again and returns a gradient that is
    whole before it is scattered (:math:`2 b H T_p`). In a sparse layer both are the routed copies.
    A weight gradient is a tensor of its own in the compute dtype before it is added to the gradient
    buffer; with ``gradient_accumulation_fusion`` it never exists, under LoRA there is none.

    Source: Transformer Engine ``linear.py``, ``layernorm_linear.py`` (``backward``), Megatron-Core
    ``distributed/distributed_data_parallel.py`` (``_make_backward_post_hook``).
    """
    compute, parallel, moe = engine.compute_dtype.bytes, engine.parallel, model.moe
    weights = 0 if engine.fused_weight_gradients or engine.lora is not None else compute
    activated = compute * activated_width(model, layer)
    if not model.has_mlp(layer):  # gradients between the projections of attention alone
        activated = mixer_inside_bytes(model, engine, layer)
    joint = 2 if model.gated_mlp else 1
    if moe is not None and model.is_sparse(layer):
        copies = compute * moe.experts_per_token * parallel.expert_tensor * model.routed_width
        matrices = moe.experts * model.routed_width * moe.expert_intermediate
        matrix = -(-weights * matrices // (parallel.expert * parallel.expert_tensor))
        return BackwardSizes(
            activated=activated,
            gathered_output=copies,
            gathered_input=copies,
            second=matrix,
            first=joint * matrix,
        )
    gathered = compute * model.hidden * parallel.tensor if parallel.tensor > 1 else 0
    width = model.intermediate if model.has_mlp(layer) else _mixer_width(model, layer)
    matrix = -(-weights * model.hidden * width // parallel.tensor)
    return BackwardSizes(
        activated=activated,
        gathered_output=gathered,
        gathered_input=2 * gathered or compute * model.hidden,
        second=matrix,
        first=joint * matrix,
    )


def _mixer_width(model: ModelShape, layer: int) -> int:
    """Width of what the output projection of a layer's attention reads."""
    if model.linear is not None and model.is_linear(layer):
        return model.linear.value_width
    return model.heads * (model.latent.v_head_dim if model.latent else model.head_dim)


def forward_bytes(model: ModelShape, engine: Engine, layer: int) -> int:
    r"""What one layer needs at once in a pass without gradients.

    .. math:: 2 b H + \max\bigl(b \, (4 q + 6 k), \; g \, b H T_p + 2 b I, \; n \, b I\bigr)

    The residual stream and the normalised input; then joint and separate queries, keys and values
    with the output; the gathered input beside the joint projection (:math:`g` is 0 on one rank); the
    joint projection with the activated gate and the product (:math:`n` is 3, without fusion 4, or 5 since
    Megatron-Core 0.15).
    In a sparse layer the routed copies are there too.
    """
    compute, parallel, moe = engine.compute_dtype.bytes, engine.parallel, model.moe
    attention = compute * 2 * (model.heads + 2 * model.kv_heads) * model.head_dim
    attention += compute * model.heads * (model.latent.v_head_dim if model.latent else model.head_dim)
    gathered = compute * model.hidden * parallel.tensor if parallel.tensor > 1 else 0
    if not model.has_mixer(layer):
        attention = 0
    elif model.is_linear(layer):
        attention = max(attention, mixer_inside_bytes(model, engine, layer))
    if not model.has_mlp(layer):
        return 2 * compute * model.hidden + gathered + attention
    activated = compute * activated_width(model, layer)
    mlp = max(gathered + 2 * activated, _gated(model, engine) * activated)
    if moe is not None and model.is_sparse(layer):
        copies = compute * moe.experts_per_token * parallel.expert_tensor * model.routed_width
        mlp = copies + max(copies, (3 if engine.fused_layers else 5) * activated)
    return 2 * compute * model.hidden + max(attention, mlp)
