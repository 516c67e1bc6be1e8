"""The variables that a job's processes get: of its script, and those that its settings hand to Ray."""

from collections.abc import Iterable

from tuner.inputs.environment import EnvironmentVariable
from tuner.inputs.settings import Settings
from tuner.trainers.verl.releases import reaches

#: Read by ``ray.init`` of the trainer: verl 0.6.0 ``trainer/main_ppo.py:61-66``; before, it passed its own.
_RUNTIME_ENVIRONMENT = "ray_kwargs.ray_init.runtime_env.env_vars"
_READ_SINCE = "0.6.0"

#: Of torch_npu, of vLLM's plugin, and of Huawei's collectives: Habana's, of the same prefix, lack the two.
_ASCEND = ("ASCEND_", "PYTORCH_NPU_", "VLLM_ASCEND_", "HCCL_CONNECT_TIMEOUT", "HCCL_EXEC_TIMEOUT")
_OTHER_CARDS = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


def is_of_ascend(environment: Iterable[EnvironmentVariable]) -> bool:
    """Whether a script gives its program variables of Ascend's cards, and none that shows it a GPU."""
    names = [variable.name for variable in environment]
    return any(name.startswith(_ASCEND) for name in names) and not any(name in names for name in _OTHER_CARDS)


def given_variables(settings: Settings, version: str) -> dict[str, EnvironmentVariable]:
    """The variables by their names; those of the settings win, as Ray lays them on the script's."""
    variables = {variable.name: variable for variable in settings.environment if variable.known}
    if reaches(version, _READ_SINCE):
        for name in settings.section(_RUNTIME_ENVIRONMENT):
            key = f"{_RUNTIME_ENVIRONMENT}.{name}"
            value, origin = settings.get(key), settings.origin(key)
            if value is not None and origin is not None and origin.location is not None:
                variables[name] = EnvironmentVariable(
                    name=name, value=str(value), location=origin.location, setting=key, of_ray=True
                )
    return variables
