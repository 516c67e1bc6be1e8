"""The variables that a job's processes get: of its script, and of Ray's runtime environment in its settings."""

from msgspec import Struct

from tuner.errors import Location
from tuner.inputs.settings import Settings
from tuner.trainers.verl.checks.releases import Releases

#: Read by ``ray.init`` of the trainer: verl 0.6.0 ``trainer/main_ppo.py:61-66``; before, only its own were passed.
_RUNTIME_ENVIRONMENT = "ray_kwargs.ray_init.runtime_env.env_vars"
_READS = Releases(since="0.6.0")


class GivenVariable(Struct, frozen=True, kw_only=True):
    """A variable with the place where it is set; ``key`` is empty where a script sets it."""

    name: str
    value: str
    location: Location | None
    key: str = ""


def given_variables(settings: Settings, version: str) -> dict[str, GivenVariable]:
    """The variables by their names; those of the settings win, as Ray lays them on the script's."""
    variables = {
        variable.name: GivenVariable(name=variable.name, value=variable.value, location=variable.location)
        for variable in settings.environment
    }
    if version in _READS:
        for name in settings.section(_RUNTIME_ENVIRONMENT):
            key = f"{_RUNTIME_ENVIRONMENT}.{name}"
            value, origin = settings.get(key), settings.origin(key)
            if value is not None and origin is not None:
                variables[name] = GivenVariable(
                    name=name, value=str(value), location=origin.location, key=key
                )
    return variables
