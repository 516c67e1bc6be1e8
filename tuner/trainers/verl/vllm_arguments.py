"""What a launch tells vLLM beside the keys of verl: under ``engine_kwargs.vllm``, and in its environment.

Source: verl 0.6.0 ``workers/rollout/vllm_rollout/vllm_rollout_spmd.py:170-213`` (``**engine_kwargs``), 0.7.1
``vllm_async_server.py:286-301`` (``compilation_config``, a mapping or its JSON text), 0.9.1 lines 307-322
(``rollout.cudagraph_capture_sizes`` is set over the list in it).
vLLM 0.12.0 ``engine/arg_utils.py:1704-1714`` refuses both in one launch.
"""

import json
from typing import Any

from tuner.trainers.verl.given_environment import given_variables
from tuner.trainers.verl.source import ReleaseSettings
from tuner.versions import at_least
from tuner.workload import RolloutEngine

_SIZES = "cudagraph_capture_sizes"

_PIECES_SINCE, _PIECES_UNTIL = "0.8.0", "0.11.0"  # of vLLM: with its newer core, and graphs of pieces alone
_SWITCHES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
_CORE, _OLDER, _NEWER = "VLLM_USE_V1", "0", "1"
_BACKEND = ("VLLM_ATTENTION_BACKEND", "XFORMERS")  # which the newer core has under no such name


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


def captures_none(source: ReleaseSettings, engine: RolloutEngine, version: str) -> bool:
    """Whether vLLM captures no CUDA graph, whatever the settings ask for, as nothing is compiled.

    Source: torch 2.6 ``_dynamo/config.py`` (``disable``: ``TORCH_COMPILE_DISABLE``) and
    ``_dynamo/eval_frame.py`` (``TORCHDYNAMO_DISABLE``): nothing is compiled. The newer core of vLLM captures
    graphs in the pieces that its backend of torch.compile has cut (0.8.5 ``v1/worker/gpu_model_runner.py``,
    ``capture_model``: runs the model, and no more; vLLM issue 15896), 0.11.0 and later whole decoding steps
    as well, around the model itself (0.12.0 ``v1/worker/gpu_model_runner.py:3603``; release notes of 0.11.0:
    ``FULL_AND_PIECEWISE`` as the default). The older core captures the model as it is.

    Args:
        source: the settings as the release reads them.
        engine: that generates.
        version: of the engine; empty where nobody says.
    """
    if engine is not RolloutEngine.VLLM or not version:
        return False
    if not at_least(version, _PIECES_SINCE) or at_least(version, _PIECES_UNTIL):
        return False
    given = _variables(source)
    return given.get(_CORE) != _OLDER and any(given.get(name) == "1" for name in _SWITCHES)


def runs_older_core(source: ReleaseSettings, version: str) -> bool | None:
    """Whether vLLM runs the older one of its two cores; None where the environment leaves that open.

    Source: vLLM 0.8.5 ``engine/arg_utils.py:1444-1460, 1649`` (``_is_v1_supported_oracle``): the variable
    decides, and a backend that the newer core lacks has the older one run. 0.11.0 has one core.

    Args:
        source: the settings as the release reads them.
        version: of the engine.
    """
    if not at_least(version, _PIECES_SINCE) or at_least(version, _PIECES_UNTIL):
        return None
    given = _variables(source)
    backend, name = _BACKEND
    lacks = given.get(backend) == name
    if given.get(_CORE) == _OLDER or (lacks and _CORE not in given):
        return True
    return False if given.get(_CORE) == _NEWER and not lacks else None


def _variables(source: ReleaseSettings) -> dict[str, str]:
    """The variables that the job's processes get."""
    return {name: one.value for name, one in given_variables(source.settings, source.version).items()}


def _decoded(text: str) -> dict[str, Any]:
    """A mapping in JSON; an empty one of any other text, of which the engine itself complains."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
