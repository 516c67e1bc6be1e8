"""Activations of one attention block, in bytes per token of one GPU.

Symbols: :math:`H` hidden, :math:`h` and :math:`k` query and key heads, :math:`d` their width,
:math:`Q = h d` and :math:`K = k d` the widths of queries and of keys, :math:`b` bytes of the compute
dtype, :math:`r` the rank of adapters. Attention keeps nothing that is quadratic in the sequence, but for a
mask, which ``tuner.memory.fsdp.row_masks`` has.
"""

from math import ceil

from tuner.architectures import layer_traits
from tuner.dtypes import DType
from tuner.model_shape import LatentAttention, ModelShape, QueryKeyNorm
from tuner.workload import Attention, Engine

_FLOAT32 = DType.FLOAT32.bytes


def attention_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""One softmax attention block, saved for its backward pass.

    .. math:: b \, (H + 2 Q + 2 K) + 4 \, h

    The input of the projections, rotated queries and keys, values, the attention's output and its
    log-sum-exp per head. Rotating and projecting save nothing more: tables and weights exist
    already. Where the blocks are not preceded by a norm (OLMo 2), the input is the layer's own and
    is not counted. Query/key norms and latent attention have functions of their own; an output
    gate (Qwen3-Next) keeps its sigmoid and the product, :math:`2 b Q`; adapters keep the output of
    each down-projection, :math:`b r`.

    Source: transformers ``LlamaAttention``, ``modeling_flash_attention_utils.py``
    (``_prepare_from_posids``); torch ``_flash_attention_forward``.
    """
    if model.latent is not None:
        return latent_attention_saved_bytes(model, engine, model.latent)
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    copies = _key_copies(model, engine)
    saved = compute * (2 * query + 2 * copies * key) + _FLOAT32 * model.heads
    if traits.norms_before:
        saved += compute * model.hidden
    if model.attention_gate:
        saved += 2 * compute * query
    if traits.interleaved_rotary:
        saved += compute * model.head_dim
    if model.qk_norm is not QueryKeyNorm.NONE:
        saved += query_key_norm_saved_bytes(model, engine)
    projections = 2 if traits.merged_heads else 4
    return saved + redistribution_saved_bytes(model, engine) + adapter_bytes(engine, projections)


def latent_attention_saved_bytes(model: ModelShape, engine: Engine, latent: LatentAttention) -> int:
    r"""One block of latent attention, saved for its backward pass.

    .. math:: b \, (H + 4 Q + h d_v) + 4 \, h + \sum_{r} \left((4 + 2 b) \, r + 4\right)

    Queries, keys expanded to all heads, values padded to their width :math:`d_n + d_r`, the
    attention's output of that width, and its first :math:`d_v` columns of each head copied for the
    output projection. Each compressed vector (:math:`r_k`, and :math:`r_q` where queries are
    compressed) is normalised as the residual stream is, its output saved; with Liger
    :math:`2 b r + 4`.

    Source: transformers ``DeepseekV3Attention``, ``integrations/flash_attention.py``.
    """
    compute = engine.compute_dtype.bytes
    query, value = model.heads * model.head_dim, model.heads * latent.v_head_dim
    sliced = 0 if latent.v_head_dim == model.head_dim else value
    saved = compute * (model.hidden + 4 * query + sliced) + _FLOAT32 * model.heads
    ranks = [latent.kv_lora_rank] if latent.q_lora_rank is None else [latent.kv_lora_rank, latent.q_lora_rank]
    normalised = compute if engine.lora is None else 0
    norm = compute if engine.fused_layers else _FLOAT32 + normalised
    compressed = sum((norm + compute) * rank + _FLOAT32 for rank in ranks)
    projections = 3 + len(ranks)
    return saved + compressed + redistribution_saved_bytes(model, engine) + adapter_bytes(engine, projections)


def query_key_norm_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""Norms of queries and keys, saved for their backward pass.

    .. math:: (4 + b)(Q + K) + 4 \, (h + k)

    Float32 copies of the inputs, the normalised values, and one scale per head (OLMo 2: one of all
    query heads and one of all key heads). Where the weight multiplies in float32 (Gemma, OLMo) the
    normalised values are, too: :math:`8 (Q + K)`. Under adapters the weights are frozen and only
    the copies are kept; Liger's kernel, which OLMo does not get here, keeps the inputs in the
    compute dtype, :math:`b (Q + K)`.

    Source: transformers ``Qwen3RMSNorm``, ``Gemma3RMSNorm``, ``Olmo2RMSNorm``; Liger
    ``transformers/monkey_patch.py`` (``apply_liger_kernel_to_olmo2``).
    """
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    width = (model.heads + model.kv_heads) * model.head_dim
    scales = 2 if model.qk_norm is QueryKeyNorm.FULL else model.heads + model.kv_heads
    if engine.fused_layers and model.qk_norm is not QueryKeyNorm.FULL:
        per_entry = compute
    elif engine.lora is not None:
        per_entry = _FLOAT32
    else:
        per_entry = 2 * _FLOAT32 if traits.float32_norms else _FLOAT32 + compute
    return per_entry * width + _FLOAT32 * scales


def redistribution_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""A second copy of the attention's output, in another layout: :math:`b Q`, or nothing.

    Under Ulysses the output goes back from few heads of the whole sequence to all heads of a part
    of it, and both are kept: the one by the attention, the other by the output projection. Padded
    batches are unpacked for the attention kernel and padded again behind it.

    Source: verl ``models/transformers/monkey_patch.py`` (``_ulysses_flash_attention_forward``);
    transformers ``modeling_flash_attention_utils.py`` (``_upad_input``).
    """
    masked = engine.attention in (
        Attention.MASKED_ROWS,
        Attention.EAGER_ROWS,
    )  # padding is computed, and the output lies as it is
    if engine.parallel.ulysses == 1 and (engine.packed or masked):
        return 0
    return engine.compute_dtype.bytes * model.heads * model.head_dim


def _key_copies(model: ModelShape, engine: Engine) -> int:
    """Ulysses repeats key heads where there are fewer than ranks; verl's attention and PyTorch's all of them.

    Of rows that are one sequence PyTorch's kept 12,264 bytes more for each token of a layer with 28 heads of
    queries and 4 of keys, 128 wide in bfloat16, where 12,288 are counted (transformers 4.47.1,
    docs/validation/data/packed-attention-2xh200.json).

    Source: verl 0.9.1 ``models/transformers/qwen2_vl.py`` (``qwen2_vl_attn_forward``, ``repeat_kv``);
    transformers 4.52.4 and 4.57.6 ``integrations/sdpa_attention.py`` (``repeat_kv``, ``use_gqa_in_sdpa``).
    """
    if engine.attention is not Attention.SEQUENCES:
        return model.heads // model.kv_heads
    if engine.repeats_keys and (engine.packed or engine.parallel.ulysses > 1):
        return model.heads // model.kv_heads
    return max(1, engine.parallel.ulysses // model.kv_heads)


def adapter_bytes(engine: Engine, projections: int) -> int:
    r"""Adapters of so many projections: the output of each down-projection, :math:`b r`.

    Their inputs are the projections' own and are counted there; the scaling saves nothing and
    verl sets no dropout.

    Source: PEFT ``tuners/lora/layer.py`` (``Linear.forward``).
    """
    return 0 if engine.lora is None else projections * engine.compute_dtype.bytes * engine.lora.rank


def linear_attention_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""One block of linear attention (gated delta rule), saved for its backward pass.

    .. math:: b \, (H + w_c + 2 h_v d_k + 4 w_v + 65 h_v) + 24 \, h_v

    Its input; the convolution's input of :math:`w_c` channels; normalised queries and keys, repeated
    to the :math:`h_v` value heads; values, the rule's output, its gate and the gated norm's output;
    per value head one row of a chunk's 64 by 64 matrix, the step size, and six float32 numbers.
    Read from the code of flash-linear-attention, which nothing here counts or measures; without it
    transformers' own code keeps several times as much.

    Source: transformers ``Qwen3NextGatedDeltaNet``; flash-linear-attention
    ``ops/gated_delta_rule/chunk.py`` (``ChunkGatedDeltaRuleFunction``).
    """
    linear = model.linear
    if linear is None:
        return 0
    if linear.scans:
        return scan_saved_bytes(model, engine)
    heads = linear.value_heads
    widths = linear.conv_width + 2 * heads * linear.key_head_dim + 4 * linear.value_width
    return engine.compute_dtype.bytes * (model.hidden + widths + 65 * heads) + 6 * _FLOAT32 * heads


def scan_saved_bytes(model: ModelShape, engine: Engine) -> int:
    r"""One block of Mamba-2, saved for its backward pass.

    .. math:: b \, (H + w_c + 3 w_v + h_v) + 4 \, h_v

    Its input; all that the joint projection made, the convolution's input of :math:`w_c` channels, the gate
    and the steps; the scan's output, that of the gated norm, and the steps in float32. The convolution and
    the states of chunks are computed again. Read from the code, which nothing here counts or measures.

    Source: mamba-ssm ``ops/triton/ssd_combined.py`` (``MambaSplitConv1dScanCombinedFn``).
    """
    linear = model.linear
    if linear is None:
        return 0
    widths = linear.conv_width + 3 * linear.value_width + linear.value_heads
    return engine.compute_dtype.bytes * (model.hidden + widths) + _FLOAT32 * linear.value_heads


#: Tokens of a chunk of Mamba-2, whose state is written out. Source: transformers ``NemotronHConfig``.
_CHUNK_TOKENS = 128


def scan_inside_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The most that one block of Mamba-2 needs at once beyond what it saves.

    .. math:: b \, (2 w_c + 2 w_v) + 4 \, \bigl(c \, h_k + \frac{2 \, h_v d_k d_v}{c}\bigr)

    Channels of the convolution computed again and their gradients, gradients of gate and output; of each of
    the :math:`c` tokens of a chunk the products with all of it, and a state in float32 with its gradient.

    Source: mamba-ssm ``ops/triton/ssd_combined.py`` (``_mamba_chunk_scan_combined_bwd``: ``CB``,
    ``dstates``).
    """
    linear = model.linear
    if linear is None:
        return 0
    state = linear.value_heads * linear.key_head_dim * linear.value_head_dim
    products = _CHUNK_TOKENS * linear.key_heads + ceil(2 * state / _CHUNK_TOKENS)
    widths = 2 * linear.conv_width + 2 * linear.value_width
    return engine.compute_dtype.bytes * widths + _FLOAT32 * products


def attention_forward_bytes(model: ModelShape, engine: Engine) -> int:
    r"""The most that one attention block needs at once in a forward pass without gradients.

    .. math:: \max\left(b \, (H + 4 Q + 2 K),\; b \, (H + Q) + 8 \, Q + 8 \, h\right)

    While queries are rotated: the input, queries, keys and values, and three more tensors of the
    width of queries. While queries are normalised (Qwen3): the input, the queries, their float32
    copy and its product with the scales. Where rotated heads are copied for the kernel (Phi-3):
    projections, rotated heads, copies and the output, :math:`b (H + 4 Q + 5 K) + 4 h`. Tables in
    float32 (OLMo 2) rotate in float32.

    Source: transformers ``LlamaAttention``, ``apply_rotary_pos_emb``, ``Qwen3Attention``.
    """
    if model.latent is not None:
        return latent_attention_forward_bytes(model, engine, model.latent)
    compute, traits = engine.compute_dtype.bytes, layer_traits(model.architecture)
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    before = compute * model.hidden if traits.norms_before else 0
    needed = before + compute * (4 * query + 2 * key)
    if traits.copied_heads:
        needed = before + compute * (4 * query + 5 * key) + _FLOAT32 * model.heads
    if traits.float32_rotary and not engine.fused_layers:
        needed = max(needed, compute * (query + 2 * key) + _FLOAT32 * (query + 3 * key))
    if model.qk_norm is not QueryKeyNorm.NONE:
        normed_values = 2 * key if traits.norms_heads_last else 0
        normed = before + compute * (query + normed_values) + 2 * _FLOAT32 * (query + model.heads)
        needed = max(needed, normed)
    return needed


def latent_attention_forward_bytes(model: ModelShape, engine: Engine, latent: LatentAttention) -> int:
    r"""The most that one block of latent attention needs at once without gradients.

    .. math:: b \, (H + 8 Q + h (d_n + d_r + d_v) + r_k + 2 d_r) + 4 \, h

    In the attention kernel: the input, what the projections made (queries, compressed vector,
    expanded keys and values), the rotated parts, queries, keys and padded values put together,
    their copies for the kernel, and the output.

    Source: transformers ``DeepseekV3Attention``, ``modeling_flash_attention_utils.py``.
    """
    compute = engine.compute_dtype.bytes
    query = model.heads * model.head_dim
    expanded = model.heads * (latent.qk_nope_head_dim + latent.v_head_dim)
    rotated = (model.heads + 1) * latent.qk_rope_head_dim
    projected = query + latent.kv_lora_rank + latent.qk_rope_head_dim + expanded
    return compute * (model.hidden + projected + rotated + 7 * query) + _FLOAT32 * model.heads
