"""The attention backends of vLLM: what each of its versions knows, and what it refuses to start with.

Read in vLLM 0.7.0, 0.7.3, 0.8.0 to 0.8.5, 0.9.0 to 0.9.2, 0.10.0 to 0.10.2, 0.11.0 to 0.11.2, 0.12.0 to
0.14.0 and 0.16.0 to 0.24.0: ``platforms/interface.py`` (``_Backend``), since 0.11.1
``attention/backends/registry.py``, since 0.14.0 ``v1/attention/backends/registry.py`` (names); ``envs.py``,
``attention/selector.py``, ``engine/arg_utils.py`` and ``config/attention.py`` (where they are read);
``v1/attention/backends/`` (what each takes, since 0.11.1).
A version in between is taken as the nearest older one of these.
"""

from msgspec import Struct

from tuner.versions import at_least

_NAMES = (  # name, first version, first version without it
    ("FLASH_ATTN", "0", ""),
    ("FLASH_ATTN_VLLM_V1", "0", "0.11.0"),
    ("FLASH_ATTN_DIFFKV", "0.14.0", ""),
    ("FLASH_ATTN_MLA", "0.10.2", ""),
    ("FLASHINFER", "0", ""),
    ("FLASHINFER_VLLM_V1", "0.9.1", "0.11.0"),
    ("FLASHINFER_MLA", "0.10.2", ""),
    ("FLASHINFER_MLA_SPARSE", "0.17.0", ""),
    ("FLASHINFER_MLA_SPARSE_DSV4", "0.23.0", ""),
    ("FLASHINFER_MLA_SPARSE_SM120", "0.24.0", ""),
    ("FLASHMLA", "0.8.0", ""),
    ("FLASHMLA_VLLM_V1", "0.9.1", "0.11.0"),
    ("FLASHMLA_SPARSE", "0.11.1", ""),
    ("FLASHMLA_SPARSE_DSV4", "0.23.0", ""),
    ("TRITON_ATTN", "0.11.0", ""),
    ("TRITON_ATTN_VLLM_V1", "0.8.2", "0.11.0"),
    ("TRITON_ATTN_DIFFKV", "0.24.0", ""),
    ("TRITON_MLA", "0.7.3", ""),
    ("TRITON_MLA_VLLM_V1", "0.9.1", "0.11.0"),
    ("XFORMERS", "0", "0.12.0"),
    ("XFORMERS_VLLM_V1", "0.10.1", "0.11.0"),
    ("FLEX_ATTENTION", "0.9.1", ""),
    ("TREE_ATTN", "0.10.1", "0.21.0"),
    ("CUTLASS_MLA", "0.10.1", ""),
    ("CUTLASS_MLA_VLLM_V1", "0.9.1", "0.10.1"),
    ("TOKENSPEED_MLA", "0.21.0", ""),
    ("TURBOQUANT", "0.20.0", ""),
    ("MINIMAX_M3_SPARSE", "0.24.0", ""),
    ("DUAL_CHUNK_FLASH_ATTN", "0.9.0", "0.11.1"),
    ("DIFFERENTIAL_FLASH_ATTN", "0.10.0", "0.11.1"),
    ("BLOCK_SPARSE_FLASH_ATTN", "0", "0.10.0"),
    ("TORCH_SDPA", "0", ""),
    ("TORCH_SDPA_VLLM_V1", "0.10.2", "0.11.0"),
    ("NO_ATTENTION", "0", ""),
    ("CUSTOM", "0.11.1", ""),
    # of other cards
    ("ROCM_FLASH", "0", "0.11.1"),
    ("ROCM_ATTN", "0.11.0", ""),
    ("ROCM_AITER_FA", "0.10.1", ""),
    ("ROCM_AITER_UNIFIED_ATTN", "0.11.1", ""),
    ("ROCM_AITER_MLA", "0.8.5", ""),
    ("ROCM_AITER_MLA_VLLM_V1", "0.9.0", "0.11.0"),
    ("ROCM_AITER_MLA_SPARSE", "0.12.0", ""),
    ("ROCM_AITER_TRITON_MLA", "0.12.0", ""),
    ("ROCM_FLASHMLA_SPARSE_DSV4", "0.23.0", ""),
    ("CPU_ATTN", "0.11.1", ""),
    ("HPU_ATTN", "0", "0.10.0"),
    ("IPEX", "0", "0.16.0"),
    ("OPENVINO", "0", "0.8.2"),
    ("PALLAS", "0", "0.14.0"),
    ("PALLAS_VLLM_V1", "0.7.3", "0.11.0"),
    ("XPU_MLA_SPARSE", "0.18.0", ""),
)
_LATENT_MAJORS: dict[str, tuple[int, ...]] = {  # of the compute capability; empty: any
    "FLASHMLA": (9, 10),
    "FLASH_ATTN_MLA": (9,),
    "CUTLASS_MLA": (10,),
    "FLASHINFER_MLA": (10,),
    "TRITON_MLA": (),
}
_EIGHT_BITS = ("fp8", "fp8_e4m3", "fp8_e5m2")
_SIXTEEN_BITS = ("auto", "bfloat16", "float16")
_STEPS_OF_32 = tuple(range(32, 257, 32))


class ServedAttention(Struct, frozen=True, kw_only=True):
    """What decides whether a backend takes a job."""

    capability: tuple[int, int]  # compute capability of the card
    head_dim: int
    latent: bool
    cache_format: str  # as the engine is told


def known_backends(version: str) -> tuple[str, ...]:
    """The names that a version knows, those for other cards among them."""
    return tuple(
        name
        for name, since, until in _NAMES
        if at_least(version, since) and not (until and at_least(version, until))
    )


def reads_variable(version: str) -> bool:
    """Whether ``VLLM_ATTENTION_BACKEND`` is read.

    Source: vLLM 0.14.0 ``envs.py:687``, and no line of 0.16.0 to 0.24.0; of 0.15 it is not known.
    """
    return not at_least(version, "0.15.0")


def refuses_unknown(version: str) -> bool:
    """Whether a name in ``VLLM_ATTENTION_BACKEND`` that is not known stops the engine; before, none counted.

    Source: vLLM 0.10.0 ``attention/selector.py:193-195``, against 0.10.1 lines 198-202 and 0.11.0 to 0.14.0
    ``envs.py`` (``env_with_choices``).
    """
    return at_least(version, "0.10.1")


def takes_argument(version: str) -> bool:
    """Whether there are the arguments ``attention_backend`` and ``attention_config``.

    Source: vLLM 0.13.0 ``engine/arg_utils.py:528, 546``, and no line of 0.12.0.
    """
    return at_least(version, "0.13.0")


def name_of_argument(version: str, word: str) -> str | None:
    """The name that an argument means, None where it leaves the choice to the engine.

    Source: vLLM 0.13.0 and 0.18.0 ``config/attention.py`` (``validate_backend_before``).
    """
    return None if word.lower() == "auto" and at_least(version, "0.18.0") else word.upper()


def invalid_reasons(version: str, name: str, served: ServedAttention) -> tuple[str, ...]:
    """Why a backend refuses a job, in vLLM's words; empty before 0.11.1, which asks none, and of others.

    Source: vLLM 0.11.1 ``platforms/cuda.py`` ("is not valid for this configuration. Reason"), 0.11.1 and
    0.12.0 ``attention/backends/abstract.py`` (``validate_configuration``), 0.14.0 to 0.24.0
    ``v1/attention/backend.py``.
    """
    if not at_least(version, "0.11.1"):
        return ()
    if name in _LATENT_MAJORS:
        return _reasons_under_latent_attention(version, name, served)
    heads, caches = _head_dims(version, name), _cache_formats(version, name, served.capability)
    if caches is None:
        return ()
    reasons = {
        "head_size not supported": not (served.latent or heads is None or served.head_dim in heads),
        "kv_cache_dtype not supported": served.cache_format not in caches,
        "MLA not supported": served.latent,
        "compute capability not supported": not _runs_on(version, name, served.capability),
    }
    return tuple(reason for reason, is_so in reasons.items() if is_so)


def _reasons_under_latent_attention(version: str, name: str, served: ServedAttention) -> tuple[str, ...]:
    """Why kernels for latent attention refuse a job: 0.11.1 to 0.24.0 ``v1/attention/backends/mla``."""
    majors = _LATENT_MAJORS[name]
    no_eight_bits = name == "FLASH_ATTN_MLA" or (name == "TRITON_MLA" and not at_least(version, "0.18.0"))
    eight_bits = () if no_eight_bits else ("fp8", "fp8_e4m3")
    known = (*_SIXTEEN_BITS, *eight_bits)
    reasons = {
        "kv_cache_dtype not supported": served.cache_format in _EIGHT_BITS
        and served.cache_format not in known,
        "non-MLA not supported": not served.latent,
        "compute capability not supported": bool(majors) and served.capability[0] not in majors,
    }
    return tuple(reason for reason, is_so in reasons.items() if is_so)


def _runs_on(version: str, name: str, capability: tuple[int, int]) -> bool:
    """Whether a card can run it (``flash_attn.py``, ``flashinfer.py``: ``supports_compute_capability``)."""
    if name == "FLASH_ATTN":
        return capability >= (8, 0)
    if name == "FLASHINFER":
        return ((8, 0) if at_least(version, "0.24.0") else (7, 5)) <= capability <= (12, 1)
    return True


def _head_dims(version: str, name: str) -> "tuple[int, ...] | range | None":
    """Dimensions of a head that a backend takes; None where nothing is asked.

    Source: vLLM 0.11.1 and 0.12.0 ``flash_attn.py``, 0.20.0 there (up to 512 by FlashAttention 4, whatever
    the card); 0.11.1, 0.20.0 and 0.22.0 ``flashinfer.py``; 0.11.1 to 0.24.0 ``triton_attn.py``, to 0.20.0
    ``tree_attn.py``.
    """
    if name == "FLASH_ATTN":
        if not at_least(version, "0.12.0"):
            return _STEPS_OF_32
        return range(8, (512 if at_least(version, "0.20.0") else 256) + 1, 8)
    if name == "FLASHINFER":
        return (64, 128, 256, 512) if at_least(version, "0.22.0") else (64, 128, 256)
    if name == "TRITON_ATTN":
        return range(32, 1 << 16)
    return _STEPS_OF_32 if name == "TREE_ATTN" else None


def _cache_formats(version: str, name: str, capability: tuple[int, int]) -> tuple[str, ...] | None:
    """The formats of the KV cache that a backend takes; None of backends that are not read here.

    ``FLASH_ATTN`` takes 8 bits by FlashAttention 3 alone, on compute capability 9.0; other words than those
    here are left to the version, which knows them or not.
    """
    if name == "FLASH_ATTN":
        if capability[0] != 9:
            return _SIXTEEN_BITS
        return (*_SIXTEEN_BITS, *(_EIGHT_BITS[:2] if at_least(version, "0.22.0") else _EIGHT_BITS))
    if name in ("FLEX_ATTENTION", "TREE_ATTN"):
        return _SIXTEEN_BITS
    return (*_SIXTEEN_BITS, *_EIGHT_BITS) if name in ("FLASHINFER", "TRITON_ATTN") else None
