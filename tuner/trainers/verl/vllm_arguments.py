"""What a launch hands to vLLM beside the keys of verl, under ``engine_kwargs.vllm``.

Source: verl 0.6.0 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:170-213`` (``**engine_kwargs``), 0.7.1
``vllm_async_server.py:286-301`` (``compilation_config``, a mapping or its JSON text), 0.9.1 lines 307-322
(``rollout.cudagraph_capture_sizes`` is set over the list in it).
vLLM 0.12.0 ``engine/arg_utils.py:1704-1714`` refuses both in one launch.
"""

import json
from typing import Any

from tuner.trainers.verl.source import ReleaseSettings
from tuner.workload import RolloutEngine

_SIZES = "cudagraph_capture_sizes"


def capture_sizes(source: ReleaseSettings, engine: RolloutEngine) -> tuple[int, ...] | None:
    """The batch sizes of CUDA graphs in the engine's own configuration; None where it names none."""
    if engine is not RolloutEngine.VLLM:
        return None
    given = source.value("rollout.vllm_compilation")
    if not isinstance(given, str):
        return source.sizes("rollout.vllm_capture_sizes")
    sizes = _decoded(given).get(_SIZES)
    if not isinstance(sizes, list) or not all(type(size) is int and size > 0 for size in sizes):
        return None
    return tuple(sorted(sizes))


def _decoded(text: str) -> dict[str, Any]:
    """A mapping in JSON; an empty one of any other text, of which the engine itself complains."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
