"""CUDA graphs that vLLM captures only of what torch.compile makes, which the environment can switch off.

Source: torch 2.6 ``_dynamo/config.py`` (``disable``: ``TORCH_COMPILE_DISABLE``) and ``_dynamo/eval_frame.py``
(``TORCHDYNAMO_DISABLE``): nothing is compiled. The newer core of vLLM captures graphs in the pieces that its
backend of torch.compile has cut (0.8.5 ``v1/worker/gpu_model_runner.py``, ``capture_model``: runs the model,
and no more; vLLM issue 15896), 0.11.0 and later whole decoding steps as well, around the model itself (0.12.0
``v1/worker/gpu_model_runner.py:3603``; release notes of 0.11.0: ``FULL_AND_PIECEWISE`` as the default). The
older core captures the model as it is.
"""

from tuner.trainers.verl.given_environment import given_variables
from tuner.trainers.verl.source import ReleaseSettings
from tuner.versions import at_least
from tuner.workload import RolloutEngine

_SINCE, _UNTIL = "0.8.0", "0.11.0"  # of vLLM, whose newer core is the default
_SWITCHES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
_OLDER_CORE = ("VLLM_USE_V1", "0")


def captures_none(source: ReleaseSettings, engine: RolloutEngine, version: str) -> bool:
    """Whether vLLM captures no CUDA graph, whatever the settings ask for, as nothing is compiled.

    Args:
        source: the settings as the release reads them.
        engine: that generates.
        version: of the engine; empty where nobody says.
    """
    if engine is not RolloutEngine.VLLM or not version:
        return False
    if not at_least(version, _SINCE) or at_least(version, _UNTIL):
        return False
    given = {name: one.value for name, one in given_variables(source.settings, source.version).items()}
    older, value = _OLDER_CORE
    return given.get(older) != value and any(given.get(name) == "1" for name in _SWITCHES)
