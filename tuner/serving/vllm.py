"""What each version of vLLM does with memory, as plain facts.

Read in vLLM 0.6.3, 0.7.3, 0.8.2 to 0.8.5, 0.9.0 to
0.9.2, 0.10.0, 0.10.2, 0.11.0, 0.12.0, and 0.18.0 to 0.24.0: ``worker/worker.py`` and
``v1/worker/gpu_worker.py`` (what the fraction is one of), ``engine/arg_utils.py`` (how many sequences
run), ``v1/sample/ops/topk_topp_sampler.py`` and ``model_executor/layers/sampler.py`` (bytes per logit),
``v1/core/kv_cache_utils.py`` (windows); in 0.13.0 and 0.14.0 ``config/vllm.py`` (when scheduling overlaps),
in 0.18.1 to 0.24.0 that and ``v1/worker/gpu/model_runner.py`` (the second model runner).
A version in between is taken as the nearest older one of these.
"""

from functools import lru_cache
from typing import Any

from tuner.architectures import find_architecture
from tuner.errors import UnsupportedError
from tuner.hardware import Gpu
from tuner.language import _
from tuner.model_shape import ModelShape
from tuner.units import GIB
from tuner.versions import at_least
from tuner.workload import CacheSizing, FractionOf

#: Sequences of the largest CUDA graph that vLLM captures by itself, unless its limit is below half of that.
#: Source: vLLM 0.8.5 and 0.24 ``config`` (``_set_cudagraph_sizes``): ``min(2 * max_num_seqs, 512)``.
LARGEST_GRAPH = 512

#: Host memory, in GiB, in which a process keeps what it made of images.
#: Source: vLLM 0.11 to 0.24 ``config/multimodal.py`` (``mm_processor_cache_gb``). An environment variable
#: of earlier versions (``VLLM_MM_INPUT_CACHE_GIB``) has the same default, 8 in the first of them.
IMAGE_CACHE_GIB = 4

_BLOCK, _LATENT_BLOCK = 16, 64  # tokens; FlashMLA takes blocks of 64
# bytes per logit in the profile run: sorted and summed up in new tensors, or in place, or masked by a kernel;
# the second runner's kernel draws from a float32 copy
_SUMMING_SAMPLER, _SORTING_SAMPLER, _MASKING_SAMPLER, _DRAWING_SAMPLER = 32, 28, 18, 6
_FEW, _MANY = 256, 1024  # sequences
_LARGE_CARD = 70 * GIB
_SWAP = 4 * GIB  # LLM(swap_space=4) of the V0 core
_RANKS = (8, 16, 32, 64, 128, 256)  # of adapters
_CACHE_FORMATS = (
    ("auto", "0"),
    ("fp8", "0"),
    ("fp8_e4m3", "0"),
    ("fp8_e5m2", "0"),
    ("fp8_inc", "0.10.0"),
    ("bfloat16", "0.11.0"),
    ("fp8_ds_mla", "0.11.1"),
    ("float16", "0.18.0"),
    ("fp8_per_token_head", "0.20.0"),
    ("int8_per_token_head", "0.20.0"),
    ("nvfp4", "0.20.0"),
    ("turboquant_k8v4", "0.20.0"),
    ("turboquant_4bit_nc", "0.20.0"),
    ("turboquant_k3v4_nc", "0.20.0"),
    ("turboquant_3bit_nc", "0.20.0"),
)
_NORMED_BY_OPERATORS = ("qwen3", "qwen3_moe")
_GRAPHS_OF_V0 = (1, 2, 4, *range(8, _FEW + 1, 8))

CHUNKS_AS_ASKED = "0.11.1"  # since then the core of 0.8 computes prompts whole where it is asked to

LAST_WITH_OLDER_CORE = "0.7.3"  # by default; later versions run it where their environment asks for it

_V0 = CacheSizing(fraction_of=FractionOf.OWN, max_sequences=_FEW, sampler_bytes=_SUMMING_SAMPLER)


def memory_facts(version: str, model: ModelShape) -> dict[str, Any]:
    """Fields of :class:`~tuner.workload.Rollout` that follow from vLLM's version.

    Raises:
        UnsupportedError: this version cannot serve the model's attention.
    """
    if model.latent is not None and not at_least(version, "0.7.1"):
        raise UnsupportedError(
            _("vLLM {version} caches the latent attention of {model} as whole heads").format(
                version=version, model=model.name
            ),
            hint=_("take vLLM 0.7.1 or newer"),
        )
    older, current = not at_least(version, "0.8.0"), at_least(version, "0.9.1")
    second_runner = _second_runner(version, model.architecture)
    return {
        "fraction_of": _fraction_of(version),
        "checks_free": current,
        # the versions that have both cores look at VLLM_USE_V1
        "older_core": _V0 if not older and not current else None,
        "counts_graphs": at_least(version, "0.20.0") and not second_runner,
        "sampler_bytes": _DRAWING_SAMPLER if second_runner else _sampler_bytes(version),
        "tunes_at_start": at_least(version, "0.24.0") and not model.extra_parameters,
        "block_tokens": _BLOCK if model.latent is None else _LATENT_BLOCK,
        "frees_windows": current,
        "overlaps_scheduling": at_least(version, "0.14.0"),
        "first_core": older,
        "freezes_heap": at_least(version, "0.23.0"),  # ``freeze_gc_heap`` of ``v1/worker/gpu_worker.py``
        "quantizes_cache": at_least(version, "0.11.0"),  # the current core before with FlashAttention 3 alone
        "staged_wake_up": at_least(version, "0.8.3"),  # since then wake_up() takes tags
        "swap_bytes": _SWAP if older else 0,
    }


#: Tokens of the longest sequence of a step that the older core still replays from a CUDA graph; verl sets no
#: other. Source: vLLM 0.6.3 ``worker/model_runner.py`` (``_use_captured_graph``), ``config.py``
#: (``max_seq_len_to_capture``).
LONGEST_GRAPH_OF_OLDER_CORE = 8192


def facts_of_core(*, older: bool) -> dict[str, Any]:
    """What is known beside :func:`memory_facts` where the environment picks one of two cores."""
    if not older:
        return {"older_core": None}
    sizing = {"fraction_of": _V0.fraction_of, "sampler_bytes": _V0.sampler_bytes}
    return sizing | {"older_core": None, "first_core": True, "frees_windows": False}


def norms_by_operators(version: str, architecture: str) -> bool:
    """Whether torch's operators norm queries and keys where the model is not compiled.

    Source: vLLM 0.8.5 ``model_executor/models/qwen3.py`` and ``qwen3_moe.py`` (``q_norm.forward_native``);
    0.9.0 to 0.24.0 there have a kernel.

    Args:
        version: of vLLM; empty where nobody says.
        architecture: of the model.
    """
    return bool(version) and not at_least(version, "0.9.0") and architecture in _NORMED_BY_OPERATORS


def has_sleep_mode(version: str) -> bool:
    """Whether the engine itself can give its memory back; a trainer takes the weights of older ones away.

    Source: vLLM 0.7.0 ``engine/arg_utils.py`` (``enable_sleep_mode``).
    """
    return at_least(version, "0.7.0")


def chunks_prefill(version: str, asked: bool | None) -> bool:
    """Whether prompts are computed in chunks, by what the engine is asked; None where it is not told.

    The core of 0.8.0 to 0.11.0 chunks whatever it is asked. The older core, by default that of 0.7, and
    0.11.1 and later do as they are asked; told nothing, the older one does not chunk.

    Source: vLLM 0.7.3 (``_override_v1_engine_args`` of a core that is off by default), 0.8.0 to 0.9.2
    (``_set_default_args_v1``), 0.10.0 to 0.11.0, and 0.11.1 to 0.24.0 ``engine/arg_utils.py``.
    """
    if not at_least(version, "0.8.0"):
        return bool(asked)
    return asked is not False or not at_least(version, CHUNKS_AS_ASKED)


def caches_prefixes(version: str, model: ModelShape, asked: bool | None) -> bool:
    """Whether prefixes share blocks of the KV cache, by what the engine is asked; None where it is not told.

    By itself the current core does, except for models some of whose layers keep a state, and the older
    one does not.

    Source: vLLM 0.7.3, 0.8.5, 0.11.1 and 0.24.0 ``engine/arg_utils.py``, 0.14.0 and 0.24.0
    ``config/model.py`` (``is_prefix_caching_supported``).
    """
    if asked is not None:
        return asked
    return at_least(version, "0.8.0") and model.linear is None


def lora_ranks(version: str) -> tuple[int, ...]:
    """The largest ranks of adapters that an engine can be built for, which takes no other number.

    Source: vLLM 0.7.0 and 0.7.3, 0.8.0 to 0.9.0 ``config.py``, 0.10.2 and 0.11.0 ``config/lora.py``
    (``possible_max_ranks``), 0.11.1 to 0.24.0 there (``MaxLoRARanks``).
    """
    if not at_least(version, "0.8.0"):
        return _RANKS
    return (*_RANKS, 320, 512) if not at_least(version, "0.11.1") else (1, *_RANKS, 320, 512)


def cache_formats(version: str) -> tuple[str, ...]:
    """The words for the KV cache's format that an engine takes.

    Source: vLLM 0.7.3, 0.8.5 and 0.9.2 ``config.py`` (``_verify_cache_dtype``, ``CacheDType``), 0.10.0 to
    0.24.0 ``config/cache.py``.
    """
    return tuple(word for word, since in _CACHE_FORMATS if at_least(version, since))


def lowers_sequences(version: str) -> bool:
    """Whether a number of sequences that nobody set is lowered to the tokens of a step.

    Source: vLLM 0.11.1 to 0.24.0 ``engine/arg_utils.py``
    (``_set_default_max_num_seqs_and_batched_tokens_args``). Before, and where the number is set, fewer
    tokens than sequences are refused.
    """
    return at_least(version, "0.11.1")


def default_sequences(version: str, gpu: Gpu) -> int:
    """Sequences that run at once where nobody says."""
    if not at_least(version, "0.8.0"):
        return _FEW
    if not at_least(version, "0.8.4"):
        return _MANY
    if not at_least(version, "0.8.5"):
        return _MANY if gpu.name.startswith(("h100", "h200")) else _FEW
    large = gpu.memory_bytes >= _LARGE_CARD
    without = at_least(version, "0.9.0") and gpu.name.startswith("a100")
    return _MANY if large and not without else _FEW


def default_capture_sizes(version: str) -> tuple[int, ...] | None:
    """Batch sizes of CUDA graphs; None for the list of the current core."""
    return None if at_least(version, "0.8.0") else _GRAPHS_OF_V0


@lru_cache(maxsize=64)
def own_capture_sizes(max_sequences: int) -> tuple[int, ...]:
    """The current core's list: 1, 2, 4, in steps of 8 up to 256, in steps of 16 up to twice the sequences."""
    largest = min(2 * max_sequences, LARGEST_GRAPH)
    listed = (1, 2, 4, *range(8, 256, 8), *range(256, LARGEST_GRAPH + 1, 16))
    return tuple(size for size in listed if size <= largest)


def _fraction_of(version: str) -> FractionOf:
    """What the memory fraction is one of.

    0.7 counts what the engine adds to the card. The V1 core of 0.8 counts all that is in use, 0.9.1 what
    was added since a snapshot that is taken before the communicators exist, 0.11 since one that is taken
    after.
    """
    if not at_least(version, "0.8.0"):
        return FractionOf.OWN
    if not at_least(version, "0.9.1"):
        return FractionOf.TOTAL_OF_ALL
    return FractionOf.TOTAL if at_least(version, "0.11.0") else FractionOf.OWN


def _second_runner(version: str, architecture: str) -> bool:
    """Whether vLLM takes its second model runner, whose ``profile_cudagraph_memory`` returns 0."""
    since = find_architecture(architecture).vllm_second_runner_since
    # of what a trainer passes, router replay (R3) alone rules it out
    return since is not None and at_least(version, since)


def _sampler_bytes(version: str) -> int:
    if at_least(version, "0.18.0"):
        return _MASKING_SAMPLER
    return _SORTING_SAMPLER if at_least(version, "0.8.3") else _SUMMING_SAMPLER
