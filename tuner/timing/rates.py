"""Rates that work reaches: shares of a data sheet's peaks, or of what was measured on the card.

The share of a measured rate is that of the peak over the share of the operation that was measured.
"""

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.timing import assumptions as assume


def product_flop_per_s(gpu: Gpu, dtype: DType) -> float:
    """Rate that dense products of operands of this dtype reach.

    Of 8-bit operands the data sheet's, where it has one: what was measured is the rate of 16 bits.
    """
    if dtype is DType.FLOAT8 and gpu.dense_fp8_flop_per_s is not None:
        return gpu.dense_fp8_flop_per_s * assume.PRODUCT_SHARE
    width = assume.FLOAT32_SHARE if dtype is DType.FLOAT32 else 1.0
    if gpu.measured is None or gpu.measured.dense_bf16_flop_per_s is None:
        return gpu.dense_bf16_flop_per_s * width * assume.PRODUCT_SHARE
    return gpu.measured.dense_bf16_flop_per_s * width * assume.PRODUCT_SHARE / assume.LARGE_PRODUCT_SHARE


def attention_flop_per_s(gpu: Gpu) -> float:
    """Rate that the attention kernel reaches."""
    if gpu.measured is None or gpu.measured.dense_bf16_flop_per_s is None:
        return gpu.dense_bf16_flop_per_s * assume.ATTENTION_SHARE
    return gpu.measured.dense_bf16_flop_per_s * assume.ATTENTION_SHARE / assume.LARGE_PRODUCT_SHARE


def copy_bytes_per_s(gpu: Gpu) -> float:
    """Rate of copies on the card and of element-wise kernels: bytes read and written."""
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
    """Rate of copies from and to other memory of the host: never above that of page-locked memory."""
    return min(gpu.host_bytes_per_s * assume.PAGEABLE_SHARE, pinned_bytes_per_s(gpu))
