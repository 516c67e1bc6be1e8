"""Every way in which a job says that memory ran out, by the words that it prints.

Sources: vLLM ``v1/core/kv_cache_utils.py``, ``v1/worker/gpu_worker.py``, ``v1/worker/gpu_model_runner.py``,
``worker/worker.py`` (V0), ``csrc/cumem_allocator.cpp``; SGLang ``srt/model_executor/model_runner.py``;
torch_memory_saver ``csrc/utils.h``; NCCL ``include/checks.h``; Ray ``exceptions.py``.
"""

import re

from msgspec import Struct

from tuner.enumeration import Enum


class ErrorKind(Enum):
    """What ran out, and who says so."""

    ALLOCATION = "allocation"  # PyTorch's allocator, which names the size of one tensor
    UNSIZED = "unsized"  # the GPU's memory, from a library that names no size
    MAPPING = "mapping"  # the pool of a rollout engine that wakes up
    NCCL = "nccl"  # buffers of a communicator
    NO_CACHE = "no_cache"  # an engine that starts: nothing is left of its share for a KV cache
    SHORT_CACHE = "short_cache"  # the same: the cache holds less than one sequence
    NOT_FREE = "not_free"  # the same: less of the card is free than its share
    SAMPLER = "sampler"  # the same: its trial run with as many sequences as it may run
    SERVING = "serving"  # an engine that generates: more tokens at once than fit
    HOST = "host"  # memory of a node, not of a GPU
    KILLED = "killed"  # a process that was killed, perhaps for a node's memory


class Wording(Struct, frozen=True, kw_only=True):
    """Words that say one kind, with the names of the figures in them."""

    kind: ErrorKind
    pattern: str
    figures: tuple[str, ...] = ()  # of the groups, in order
    engine: str = ""  # whose words they are


_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"
_GIB = rf"{_NUMBER} ?GiB"

# The first that fits a line is taken.
WORDINGS = (
    Wording(
        kind=ErrorKind.SAMPLER,
        pattern=rf"out of memory occurred when warming up sampler with {_NUMBER} dummy requests",
        figures=("sequences",),
        engine="vLLM",
    ),
    Wording(kind=ErrorKind.ALLOCATION, pattern=r"(?:out of memory.{0,40})?Tried to allocate \d"),
    Wording(kind=ErrorKind.NO_CACHE, pattern=r"No available memory for the cache blocks", engine="vLLM"),
    Wording(
        kind=ErrorKind.NO_CACHE,
        pattern=r"Not enough memory\. Please try to increase --mem-fraction-static",
        engine="SGLang",
    ),
    Wording(
        kind=ErrorKind.SHORT_CACHE,
        pattern=rf"max seq len \({_NUMBER}\),? \(?{_GIB} KV cache is needed.{{0,80}}? \(?{_GIB}\)?"
        rf"(?:.{{0,80}}?maximum model length is {_NUMBER})?",
        figures=("sequence_tokens", "needed_gib", "available_gib", "possible_tokens"),
        engine="vLLM",
    ),
    Wording(
        kind=ErrorKind.SHORT_CACHE,
        pattern=rf"max seq len \({_NUMBER}\) is larger than the maximum number of tokens.{{0,60}}"
        rf"\({_NUMBER}\)",
        figures=("sequence_tokens", "possible_tokens"),
        engine="vLLM",
    ),
    Wording(
        kind=ErrorKind.NOT_FREE,
        pattern=rf"Free memory on device.{{0,20}}? \({_NUMBER}/{_GIB}\) on startup is less than desired GPU "
        rf"memory utilization \({_NUMBER}, {_GIB}\)",
        figures=("free_gib", "total_gib", "fraction", "share_gib"),
        engine="vLLM",
    ),
    Wording(
        kind=ErrorKind.MAPPING, pattern=r"CUDA Error: out of memory at \S*cumem_allocator", engine="vLLM"
    ),
    Wording(
        kind=ErrorKind.MAPPING,
        pattern=r"torch_memory_saver.{0,80}(?:out of memory|error: 2\b)",
        engine="SGLang",
    ),
    Wording(kind=ErrorKind.NCCL, pattern=r"Cuda failure (?:2 )?'out of memory'"),
    Wording(kind=ErrorKind.SERVING, pattern=r"(?:Prefill|Decode) out of memory", engine="SGLang"),
    Wording(
        kind=ErrorKind.HOST,
        pattern=rf"Memory on the node .{{0,600}}? was {_NUMBER} ?GB ?/ ?{_NUMBER} ?GB",
        figures=("used_gib", "total_gib"),  # Ray writes GB and divides by 2**30
    ),
    Wording(
        kind=ErrorKind.HOST,
        pattern=r"node running low on memory|killed due to memory pressure|Out of memory: Killed process"
        r"|invoked oom-killer|oom-kill:|OOMKilled",
    ),
    Wording(
        kind=ErrorKind.UNSIZED,
        pattern=r"(?:CUDA|HIP|NPU)(?: driver)? (?:error|Error): out of memory|(?:CUDA|HIP|NPU) out of memory"
        r"|CUBLAS_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation"
        r"|torch\.(?:cuda\.)?OutOfMemoryError",
    ),
    Wording(
        kind=ErrorKind.KILLED,
        pattern=r"SIGKILL by OOM killer|\(SIGKILL\)|exit ?code:? -9\b|is killed by signal: Killed",
    ),
)


class MatchedWording(Struct, frozen=True, kw_only=True):
    """A wording that was found, and its figures."""

    wording: Wording
    figures: tuple[tuple[str, float], ...] = ()


def said_in(text: str, *, within: int | None = None, only: ErrorKind | None = None) -> MatchedWording | None:
    """What a text says, by the first wording that fits; None where memory is no matter.

    Args:
        text: one line, or several that were joined.
        within: how many characters from the start the words must begin; the whole text.
        only: the kind that is looked for; any.
    """
    for wording in WORDINGS:
        match = re.search(wording.pattern, text) if only in (None, wording.kind) else None
        if match is not None and (within is None or match.start() < within):
            given = zip(wording.figures, match.groups(), strict=True) if wording.figures else ()
            figures = tuple((name, float(number)) for name, number in given if number is not None)
            return MatchedWording(wording=wording, figures=figures)
    return None
