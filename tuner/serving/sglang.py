"""What each version of SGLang does with memory and attention, as plain facts.

Read in SGLang 0.4.3.post3, 0.4.4.post3, 0.4.6.post5, 0.4.8, 0.4.9.post6, 0.4.10.post2, 0.5.1 to 0.5.6, 0.5.8,
0.5.9, 0.5.10 and 0.5.12: ``srt/server_args.py`` (what follows from the card),
``srt/model_executor/model_runner.py`` (the memory pool, formats, backends),
``srt/model_executor/cuda_graph_runner.py`` (sizes of CUDA graphs).
A version in between is taken as the nearest older one of these.
"""

from functools import lru_cache
from typing import Any

from tuner.dtypes import DType
from tuner.hardware import Gpu
from tuner.model_shape import ModelShape
from tuner.units import MIB
from tuner.versions import at_least
from tuner.workload import FractionOf

#: Sequences that run at once where nobody says.
DEFAULT_SEQUENCES = 2048

#: Tokens of one prefill step where prompts are not divided (``max_prefill_tokens``), in all of them.
UNDIVIDED_TOKENS = 16384

#: The format of an 8-bit cache that FlashAttention 3 takes; for ``fp8_e5m2`` SGLang runs Triton's kernels
#: instead. Source: SGLang 0.4.6.post5 ``srt/model_executor/model_runner.py:371-379``, 0.5.2 lines 526-534,
#: 0.5.5 to 0.5.12 ``srt/server_args.py`` ("FlashAttention3 only supports fp8_e4m3 if using FP8").
EIGHT_BIT_CACHE = "fp8_e4m3"

_CACHE_FORMATS = (
    ("auto", "0"),
    ("fp8_e5m2", "0"),
    ("fp8_e4m3", "0"),
    ("bf16", "0.5.4"),
    ("bfloat16", "0.5.4"),
    ("fp4_e2m1", "0.5.4"),
)
_BACKENDS = (  # word, first version, first version without it
    ("flashinfer", "0", ""),
    ("flashinfer_mla", "0", "0.4.5"),
    ("triton", "0", ""),
    ("torch_native", "0", ""),
    ("fa3", "0.4.4", ""),
    ("flashmla", "0.4.4", ""),
    ("cutlass_mla", "0.4.6", ""),
    ("aiter", "0.4.6", ""),
    ("intel_amx", "0.4.8", ""),
    ("ascend", "0.4.9", ""),
    ("trtllm_mla", "0.4.10", ""),
    ("trtllm_mha", "0.5.0", ""),
    ("dual_chunk_flash_attn", "0.5.0", ""),
    ("wave", "0.5.0", ""),
    ("hybrid_linear_attn", "0.5.2", "0.5.3"),
    ("fa4", "0.5.3", ""),
    ("flex_attention", "0.5.3", ""),
    ("nsa", "0.5.3", ""),
    ("intel_xpu", "0.5.4", ""),
    ("dsv4", "0.5.11", ""),
    ("compressed", "0.5.11", ""),
    ("tokenspeed_mla", "0.5.11", ""),
)
_SMALL_CARD, _LARGE_CARD = 35 * 1024, 160 * 1024  # MiB
_WIDEST_STEP = 32  # between two sizes of CUDA graphs
_FEW_GPUS = 4  # of tensor parallelism, from which on a small card captures more graphs


def memory_facts() -> dict[str, Any]:
    """Fields of :class:`~tuner.workload.Rollout` that hold for every release.

    The fraction is of what is free when the engine starts, and for weights and cache alone, in all of them.
    """
    return {
        "fraction_of": FractionOf.STATIC_POOL,
        "block_tokens": 1,
        "frees_windows": False,
        "state_dtype": DType.FLOAT32,
        "quantizes_cache": True,
    }


def cache_formats(version: str) -> tuple[str, ...]:
    """The words for the KV cache's format that an engine takes, which raises ``ValueError`` for another one.

    Source: SGLang 0.4.4.post3 ``srt/model_executor/model_runner.py:678-691``, 0.5.2 lines 1231-1246, 0.5.4,
    0.5.5 lines 1509-1546, 0.5.8 and 0.5.12 there (``configure_kv_cache_dtype``).
    """
    return tuple(word for word, since in _CACHE_FORMATS if at_least(version, since))


def attention_backends(version: str) -> tuple[str, ...]:
    """The attention backends that an engine knows; it raises ``ValueError`` for another one.

    Source: SGLang 0.4.3.post3 to 0.5.2 ``srt/model_executor/model_runner.py`` (``init_attention_backend``,
    "Invalid attention backend"), 0.5.3 to 0.5.12 ``srt/layers/attention/attention_registry.py``.
    """
    return tuple(
        word
        for word, since, until in _BACKENDS
        if at_least(version, since) and not (until and at_least(version, until))
    )


def caches_prefixes(version: str, model: ModelShape) -> bool:
    """Whether prefixes share the KV cache where nobody sets ``disable_radix_cache``.

    Source: SGLang 0.5.2 ``srt/model_executor/model_runner.py:308-310``, 0.5.4 lines 402-405 (no models some
    of whose layers keep a state); 0.5.5 to 0.5.12 ``srt/server_args.py`` have their states cached.
    """
    return model.linear is None or at_least(version, "0.5.5")


def prefill_tokens(version: str, gpu: Gpu) -> int:
    """Tokens of one prefill step where nobody sets ``chunked_prefill_size``.

    Source: SGLang 0.4.4.post3 and 0.4.6.post5 ``srt/server_args.py`` (``__post_init__``), 0.4.8 lines
    318-327, 0.5.2 lines 509-518, 0.5.3 to 0.5.12 there (``_handle_gpu_memory_settings``).
    """
    memory = gpu.memory_bytes // MIB
    if not at_least(version, "0.4.8"):
        return 2048 if memory < 25_000 else 8192
    if memory < _SMALL_CARD:
        return 2048
    if at_least(version, "0.5.3") and memory < 60 * 1024:
        return 4096
    return 8192 if memory < _LARGE_CARD else 16384


def capture_sizes(version: str, gpu: Gpu, tensor_parallel: int, largest: int | None) -> tuple[int, ...]:
    """Batch sizes of CUDA graphs.

    Args:
        version: of the engine.
        gpu: its card.
        tensor_parallel: GPUs that share the model.
        largest: ``cuda_graph_max_bs``, None where nobody sets it.
    """
    if largest is None:
        largest = _largest_graph(version, gpu.memory_bytes // MIB, tensor_parallel)
    return _capture_sizes_up_to(largest, fine=at_least(version, "0.5.3"))


def capture_sizes_for(version: str, sequences: int) -> tuple[int, ...]:
    """The engine's sizes of CUDA graphs up to the first one that so many sequences fit."""
    sizes = _capture_sizes_up_to(sequences + _WIDEST_STEP, fine=at_least(version, "0.5.3"))
    largest = next(size for size in sizes if size >= sequences)
    return tuple(size for size in sizes if size <= largest)


def running_capture_sizes(sizes: tuple[int, ...], max_sequences: int) -> tuple[int, ...]:
    """The sizes of which so many sequences can run; where there are larger ones, that number is one itself.

    Source: SGLang 0.4.6.post5 to 0.5.12 ``srt/model_executor/cuda_graph_runner.py``
    (``get_batch_sizes_to_capture``; the numbers are sorted and unique there).
    """
    if max(sizes, default=0) <= max_sequences:
        return sizes
    return tuple(sorted({size for size in sizes if size < max_sequences} | {max_sequences}))


@lru_cache(maxsize=64)
def _capture_sizes_up_to(largest: int, *, fine: bool) -> tuple[int, ...]:
    """Batch sizes of CUDA graphs up to a largest one; ``fine`` since 0.5.3.

    Source: SGLang 0.4.6.post5 ``srt/model_executor/cuda_graph_runner.py:127-163``, 0.5.2 lines 165-215; 0.5.5
    to 0.5.12 ``srt/server_args.py`` (``_generate_cuda_graph_batch_sizes``).
    """
    if fine:
        listed = (1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, largest + 1, 32))
    else:
        listed = (1, 2, 4, 8, *range(16, 257, 8), *range(272, max(largest, 272) + 1, 16))
    return tuple(size for size in listed if size <= largest)


def _largest_graph(version: str, memory: int, tensor_parallel: int) -> int:
    """Most sequences of a CUDA graph, by the memory of a card in MiB.

    Source: SGLang 0.4.4.post3 ``srt/server_args.py`` (``cuda_graph_max_bs``: 160), 0.4.6.post5, 0.4.8 and
    0.5.2 ``srt/model_executor/cuda_graph_runner.py`` (``get_batch_sizes_to_capture``), 0.5.3 to 0.5.12
    ``srt/server_args.py`` (``_handle_gpu_memory_settings``).
    """
    few = tensor_parallel < _FEW_GPUS
    if at_least(version, "0.5.3"):
        return _graphs_of_card(version, memory, few=few)
    if memory < (_SMALL_CARD if at_least(version, "0.4.8") else 25_000):
        return 8 if few else 80
    if not at_least(version, "0.4.8"):
        return 256 if at_least(version, "0.4.6") and memory > 96 * 1024 else 160
    if memory <= 90 * 1024:
        return 160
    return 512 if memory > 160 * 1000 else 256


def _graphs_of_card(version: str, memory: int, *, few: bool) -> int:
    """What ``cuda_graph_max_bs`` is set to since 0.5.3."""
    if memory < 20 * 1024:
        return 8
    small = 24 if at_least(version, "0.5.5") else 16
    steps = ((_SMALL_CARD, small, 80), (60 * 1024, 32, 160), (_LARGE_CARD, 256, 512))
    return next((less if few else more for below, less, more in steps if memory < below), 512)
