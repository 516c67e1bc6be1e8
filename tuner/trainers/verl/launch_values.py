"""The values of a launch, for conditions in the code that it runs."""

from collections.abc import Callable

from tuner.inputs.settings import Settings
from tuner.inputs.tree import contains, dotted
from tuner.trainers.verl.trainer_code.program_values import UNKNOWN


def values_of(settings: Settings) -> Callable[[tuple[str, ...], object], object]:
    """What gives the value of a key, or what is handed with it where the configuration has no such key."""

    def value_of(path: tuple[str, ...], default: object) -> object:
        key = dotted(path)
        there = key in settings and (settings.composed is None or contains(settings.composed, path))
        value = settings.get(key) if there else default
        return UNKNOWN if isinstance(value, str) and "${" in value else value

    return value_of
