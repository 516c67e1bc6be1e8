"""What a rollout engine logs as it starts: its version, its cache, the longest sequence that it takes.

Sources: vLLM ``v1/core/kv_cache_utils.py`` and ``v1/worker/gpu_worker.py``, before them
``executor/executor_base.py`` and ``worker/worker.py``; ``v1/engine/core.py`` (the configuration); SGLang
``mem_cache/memory_pool.py`` and ``managers/scheduler.py``.
"""

import re
from collections.abc import Iterable

from tuner.inputs.log.lines import LogLine
from tuner.inputs.log.metrics import read_step
from tuner.units import GIB
from tuner.workload.observed_run import EngineStart

_NUMBER = r"(\d[\d,]{0,18})"
_VERSION = re.compile(
    r"\bLLM engine \(v(\d{1,4}(?:\.\d{1,4}){1,3})|\bvLLM API server version (\d[\d.]{1,20}\d)"
)
_COUNTS = {
    "cache_tokens": re.compile(rf"KV cache size: {_NUMBER} tokens|\bmax_total_num_tokens={_NUMBER}\b"),
    "cache_blocks": re.compile(rf"# (?:cuda|GPU) blocks: {_NUMBER}\b"),
    "sequence_tokens": re.compile(
        rf"\bmax_seq_len={_NUMBER}\b|'max_model_len': {_NUMBER}\b|\bcontext_len={_NUMBER}\b"
        rf"|Maximum concurrency for {_NUMBER} tokens"
    ),
}
_CACHE_GIB = re.compile(
    r"(?:Available KV cache memory: |reserved for KV Cache is )(\d{1,6}(?:\.\d{1,6})?) ?GiB"
)
# One of which is in a line that has a figure.
_TELLING = (
    "KV ",
    " blocks: ",
    "max_total_num_tokens=",
    "max_seq_len=",
    "max_model_len",
    "Maximum concurrency",
)


def engine_version(lines: Iterable[LogLine]) -> str | None:
    """The version that the engine prints first; None where none does."""
    for line in lines:
        if "engine (v" in line.text or "server version" in line.text:
            match = _VERSION.search(line.text)
            if match is not None:
                return match[1] or match[2]
    return None


def engine_start(lines: Iterable[LogLine]) -> EngineStart | None:
    """What the engine prints before the first step; of several replicas or ranks the least.

    Returns:
        None where no line tells anything.
    """
    least: dict[str, int] = {}
    cache, blocks, total, longest, limit, concurrency = _TELLING
    for line in lines:
        text = line.text
        if "step:" in text and (step := read_step(text)) is not None and step.step:
            break  # training has begun; step 0 is the validation before it
        if (  # written out: a log has a million lines, and a generator for each takes seconds
            cache in text
            or blocks in text
            or total in text
            or longest in text
            or limit in text
            or concurrency in text
        ):
            for name, value in _figures(text):
                least[name] = min(value, least.get(name, value))
    return EngineStart(**least) if least else None


def _figures(text: str) -> Iterable[tuple[str, int]]:
    for name, pattern in _COUNTS.items():
        match = pattern.search(text)
        if match is not None:
            yield name, int(match[match.lastindex or 1].replace(",", ""))
    memory = _CACHE_GIB.search(text)
    if memory is not None:
        yield "cache_bytes", round(float(memory[1]) * GIB)
