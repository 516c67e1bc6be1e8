"""Rates that work reaches: shares of a data sheet's peaks, or of what was measured on the card.

Products and attention of a layer take their share from tables by shape, see ``tuner.timing.operators``.

The share of a measured rate is that of the peak over the share of the operation that was measured.
"""

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.timing import assumptions as assume
from tuner.timing.cards import attained
from tuner.timing.corrections import OperatorFamily, correction
from tuner.timing.operators import attention_share, grouped_share, product_share


def layer_product_flop_per_s(
    gpu: Gpu, dtype: DType, *, width: float, rows: float, backward: bool = False
) -> float:
    """Rate of the products of a layer.

    Args:
        gpu: data sheet, and what was measured on the card.
        dtype: of the operands.
        width: the narrower side of its weights.
        rows: tokens that are multiplied at a time.
        backward: of the two products that give the gradients, not of the one that gives the output.
    """
    share = product_share(gpu, width=width, rows=rows, backward=backward)
    rate = product_flop_per_s(gpu, dtype) * share / attained(gpu).typical
    return rate * correction(gpu, OperatorFamily.PRODUCTS)


def grouped_flop_per_s(gpu: Gpu, dtype: DType, *, width: float, rows: float, backward: bool = False) -> float:
    """Rate of the grouped products of experts, each of ``rows`` tokens; reading their weights is in it."""
    share = grouped_share(gpu, width=width, rows=rows, backward=backward)
    rate = product_flop_per_s(gpu, dtype) * share / attained(gpu).typical
    return rate * correction(gpu, OperatorFamily.PRODUCTS)


def product_flop_per_s(gpu: Gpu, dtype: DType) -> float:
    """Rate that large dense products of operands of this dtype reach.

    Of 8-bit operands the data sheet's, where it has one: what was measured is the rate of 16 bits.
    """
    if dtype is DType.FLOAT8 and gpu.dense_fp8_flop_per_s is not None:
        return gpu.dense_fp8_flop_per_s * attained(gpu).typical
    width = assume.FLOAT32_SHARE if dtype is DType.FLOAT32 else 1.0
    if gpu.measured is None or gpu.measured.dense_bf16_flop_per_s is None:
        return gpu.dense_bf16_flop_per_s * width * attained(gpu).typical
    return gpu.measured.dense_bf16_flop_per_s * width


def layer_attention_flop_per_s(gpu: Gpu, *, head_dim: float, tokens: float, backward: bool = False) -> float:
    """Rate of the attention kernel of a layer, on sequences of so many tokens."""
    share = attention_share(gpu, head_dim=head_dim, tokens=tokens, backward=backward)
    rate = product_flop_per_s(gpu, DType.BFLOAT16) * share / attained(gpu).typical
    return rate * correction(gpu, OperatorFamily.ATTENTION)


def attention_flop_per_s(gpu: Gpu) -> float:
    """Rate that an inference engine's attention kernel reaches."""
    if gpu.measured is None or gpu.measured.dense_bf16_flop_per_s is None:
        return gpu.dense_bf16_flop_per_s * assume.ATTENTION_SHARE
    return gpu.measured.dense_bf16_flop_per_s * assume.ATTENTION_SHARE / assume.LARGE_PRODUCT_SHARE


def elementwise_bytes_per_s(gpu: Gpu) -> float:
    """Rate of a layer's element-wise kernels: bytes read and written."""
    return copy_bytes_per_s(gpu) * correction(gpu, OperatorFamily.ELEMENTWISE)


def head_product_flop_per_s(gpu: Gpu, dtype: DType) -> float:
    """Rate of the product with the output projection."""
    return product_flop_per_s(gpu, dtype) * correction(gpu, OperatorFamily.HEAD)


def copy_bytes_per_s(gpu: Gpu) -> float:
    """Rate of copies on the card: bytes read and written."""
    if gpu.measured is None or gpu.measured.memory_bytes_per_s is None:
        return gpu.memory_bytes_per_s * assume.MEMORY_SHARE
    return gpu.measured.memory_bytes_per_s


def decode_bytes_per_s(gpu: Gpu) -> float:
    """Rate at which decoding reads weights and KV cache."""
    if gpu.measured is None or gpu.measured.memory_bytes_per_s is None:
        return gpu.memory_bytes_per_s * assume.DECODE_MEMORY_SHARE
    return gpu.measured.memory_bytes_per_s * assume.DECODE_MEMORY_SHARE / assume.MEMORY_SHARE


def link_bytes_per_s(gpu: Gpu) -> float:
    """Rate of collectives between GPUs of a machine, one direction."""
    if gpu.measured is None or gpu.measured.link_bytes_per_s is None:
        return gpu.link_bytes_per_s * assume.LINK_SHARE
    return gpu.measured.link_bytes_per_s


def pinned_bytes_per_s(gpu: Gpu) -> float:
    """Rate of copies from and to page-locked memory of the host, one direction."""
    if gpu.measured is None or gpu.measured.host_bytes_per_s is None:
        return gpu.host_bytes_per_s * assume.PINNED_SHARE
    return gpu.measured.host_bytes_per_s


def pageable_bytes_per_s(gpu: Gpu) -> float:
    """Rate of copies from other memory of the host: never above that of page-locked memory."""
    return min(assume.PAGEABLE_BYTES_PER_S, pinned_bytes_per_s(gpu))


def fresh_bytes_per_s(gpu: Gpu) -> float:
    """Rate of copies to memory of the host that nobody has touched: never above page-locked memory's."""
    return min(assume.FRESH_BYTES_PER_S, pinned_bytes_per_s(gpu))
