"""What a release of verl hands to SGLang, and what the engine does where it is handed nothing.

``enable_chunked_prefill`` and ``enable_prefix_caching`` are not among it in any release; what stands under
``engine_kwargs.sglang`` is, where the engine runs behind a server.

Source: verl 0.4.1 ``workers/rollout/sglang_rollout/sglang_rollout.py:388-420``, 0.5.0 lines 438-470 and 0.6.0
lines 417-478 (arguments one by one, ``engine_kwargs`` read for ``attention_backend`` alone), 0.6.0
``workers/rollout/sglang_rollout/async_sglang_server.py:124-153`` (likewise), 0.6.1 lines 126-156, 0.7.1 lines
161-204 and 0.9.1 lines 276-340 there (``**engine_kwargs``).
"""

from tuner.hardware import Gpu
from tuner.inputs.settings import Settings
from tuner.model_shape import ModelShape
from tuner.serving import sglang
from tuner.trainers.verl.source import ReleaseSettings


def has_server(source: ReleaseSettings) -> bool:
    """Whether requests reach the engine through a server."""
    if not source.since("0.6.0"):
        return False
    return source.text("rollout.mode", default="async" if source.since("0.7.0") else "sync") != "sync"


def hands_on_arguments(source: ReleaseSettings) -> bool:
    """Whether ``engine_kwargs.sglang`` reaches the engine, apart from the attention backend in it."""
    return source.since("0.6.1") and has_server(source)


def copy_hands_on(settings: Settings, name: str) -> bool:
    """Whether the code of a copy of verl makes the engine with an argument of this name."""
    has = settings.has_statement
    return has is not None and has(f"Engine {name}", "sglang_rollout")


def deciding_meaning(source: ReleaseSettings, own: str, otherwise: str) -> str:
    """The meaning of the key that decides: SGLang's own argument stands behind what verl makes of its keys.

    Args:
        source: the settings.
        own: the meaning of the argument under ``engine_kwargs.sglang``.
        otherwise: that of verl's key.
    """
    return own if hands_on_arguments(source) and source.value(own) is not None else otherwise


def divides_prompts(source: ReleaseSettings) -> bool:
    """Whether prompts are computed in chunks, which a chunk of no size switches off."""
    return _chunk(source) != 0


def prefill_tokens(source: ReleaseSettings, version: str, gpu: Gpu) -> int:
    """Tokens of prompts that one step takes."""
    chunk = _chunk(source)
    if chunk is None:
        return sglang.prefill_tokens(version, gpu)
    return chunk or sglang.UNDIVIDED_TOKENS


def keeps_prefixes(source: ReleaseSettings, version: str, model: ModelShape) -> bool:
    """Whether responses to one prompt share its keys and values."""
    off = hands_on_arguments(source) and source.flag("rollout.sglang_no_prefixes")
    return not off and sglang.caches_prefixes(version, model)


def capture_sizes(source: ReleaseSettings, version: str, gpu: Gpu) -> tuple[int, ...] | None:
    """Batch sizes of CUDA graphs; None where it is not known how the card decides."""
    if gpu.is_ascend:
        return None
    largest = source.integer("rollout.sglang_largest_graph") if hands_on_arguments(source) else None
    tensor = source.integer("rollout.tensor_parallel", default=2)
    if source.since("0.7.1"):  # tp_size is the GPUs of tensor and data parallelism together
        tensor *= source.integer("rollout.data_parallel", default=1)
    return sglang.capture_sizes(version, gpu, tensor, largest)


def _chunk(source: ReleaseSettings) -> int | None:
    """``chunked_prefill_size``, 0 where prompts are not divided; None where nobody sets it."""
    chunk = source.integer("rollout.sglang_chunk", minimum=-1) if hands_on_arguments(source) else None
    return None if chunk is None else max(0, chunk)
