r"""Attention that pairs all tokens of a row, which PyTorch's own does where a mask says who sees whom.

.. math::
    t = \frac{2 \, T R \, h (d_{qk} + d_v)}{s \, F_R} + \frac{b_m T R}{B}
    + \frac{2 \, b \, T h d + 2 \, b \, T k d}{B}

for T tokens in rows of R; :math:`F_R` is the rate of flash attention over sequences of R tokens, of which the
kernel for masks reaches the share s (``tuner.timing.mask_kernels``), and B that of copies. A packed
micro-batch is one row, and a padded sequence is one. The kernel skips nothing: pairs of different sequences
and of a token with later ones are computed as well. In each layer the mask of booleans is made one of numbers
in the compute dtype, which for the memory-efficient kernel is copied where its rows do not begin at multiples
of 16 bytes, and keys and values are repeated to all heads. Backward has 2.5 times the FLOP. Of rows that are
one sequence to the model transformers 4.49 to 4.52 makes such a mask as well, of numbers from the start,
where they reach the ``sliding_window`` of a Qwen2 or Qwen3, whether a layer uses that or not. Eager attention
makes every step of it, scores, mask, softmax in float32 and casts, a kernel of its own, whose bytes are
counted for each pair and head; its products are taken at the rate of flash attention.

Source: transformers 4.57.6 ``integrations/sdpa_attention.py`` (``repeat_kv``, ``use_gqa_in_sdpa``); torch 2.9
``aten/src/ATen/native/transformers/attention.cpp`` (``convert_boolean_attn_mask``, ``preprocess_mask``,
``pad_bias``), ``cuda/sdp_utils.cpp`` (``check_for_attn_mask`` of flash attention); transformers 4.57.6
``models/qwen3/modeling_qwen3.py`` (``eager_attention_forward``).
"""

from msgspec import Struct

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.timing import assumptions as assume
from tuner.timing.layer import LayerWork
from tuner.timing.mask_kernels import MaskKernel
from tuner.timing.rates import copy_bytes_per_s, layer_attention_flop_per_s

_ALIGNED_TOKENS = 8  # of a row of the mask in 16 bits


class PairedRows(Struct, frozen=True, kw_only=True):
    """Rows whose tokens attention pairs, on one GPU in one micro-batch."""

    tokens: float  # of all rows
    row_tokens: float
    heads: int
    key_heads: int
    packed: bool
    of_booleans: bool = True  # the mask, which each layer makes numbers of
    eager: bool = False


def row_attention_seconds(
    layer: LayerWork,
    rows: PairedRows,
    gpu: Gpu,
    dtype: DType,
    kernel: MaskKernel,
    *,
    backward: bool = False,
) -> float:
    """One layer's attention over rows in one direction.

    Args:
        layer: which one.
        rows: its tokens.
        gpu: rates.
        dtype: of queries, keys and values.
        kernel: whose typical share counts.
        backward: the direction.
    """
    pairs = rows.tokens * rows.row_tokens
    rate = (1.0 if rows.eager else kernel.typical[backward]) * layer_attention_flop_per_s(
        gpu, head_dim=layer.head_dim, tokens=rows.row_tokens, backward=backward
    )
    flop = 2 * pairs * layer.attention_width * (assume.ATTENTION_BACKWARD if backward else 1)
    moved = repeated_bytes(layer, rows, dtype)
    if rows.eager:
        compute, float32 = assume.EAGER_SCORES[backward]
        moved += pairs * rows.heads * (compute * dtype.bytes + float32 * DType.FLOAT32.bytes)
    elif not backward:
        moved += pairs * mask_bytes(rows, copies=kernel.copies_mask)
    return flop / rate + moved / copy_bytes_per_s(gpu)


def mask_bytes(rows: PairedRows, *, copies: bool) -> float:
    """Bytes moved for each pair to make a layer's mask: a boolean read, 2 bytes written, and their copy.

    The tokens of a packed row are any number, of which one in eight needs no copy.

    Args:
        rows: those of the mask.
        copies: whether the kernel wants rows that are aligned.
    """
    made = assume.MASK_BYTES if rows.of_booleans else 0
    if not copies:
        return made
    copied = 1 - 1 / _ALIGNED_TOKENS if rows.packed else float(rows.row_tokens % _ALIGNED_TOKENS > 0)
    return made + copied * assume.MASK_COPY_BYTES


def repeated_bytes(layer: LayerWork, rows: PairedRows, dtype: DType) -> float:
    """Bytes of repeating keys and values to all heads, or of adding up their gradients."""
    if rows.heads == rows.key_heads:
        return 0.0
    return 2 * dtype.bytes * rows.tokens * layer.head_dim * (rows.heads + rows.key_heads)
