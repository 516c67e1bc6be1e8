"""The accelerators that a script shows to a program: ``CUDA_VISIBLE_DEVICES=2,3``."""

import re
from collections.abc import Iterable

from tuner.errors import Location
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.values import Text
from tuner.inputs.user_input import Count

DEVICE_NAMES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES")
_ADDRESS = "RAY_ADDRESS"  # of a Ray that runs already, which has the devices that it was started with
_RAY = re.compile(r"\bray\s+(?:start|up|job\s+submit|submit|exec|attach)\b")
_DEVICE = re.compile(r"\d{1,4}|(?:GPU|MIG)-[\w/-]+")
_MOST = 1_000


def exported_devices(scope: Scope) -> tuple[tuple[str, Text], ...]:
    """What a script exports of them, and of Ray's address, to every program that it starts."""
    values = ((name, scope.variables.get(name)) for name in (*DEVICE_NAMES, _ADDRESS))
    return tuple(
        (name, value)
        for name, value in values
        if isinstance(value, Text) and (scope.exports_all or name in scope.exported)
    )


def meets_ray(environment: Iterable[tuple[str, Text]], line: str) -> bool:
    """Whether a command starts a Ray, hands a program to one that runs, or is told the address of one.

    Args:
        environment: of the command.
        line: its words, with blanks between them.
    """
    return _ADDRESS in dict(environment) or _RAY.search(line) is not None


def visible_devices(environment: Iterable[tuple[str, Text]], place: Location) -> Count | None:
    """How many accelerators a program sees; None where nothing says so.

    Args:
        environment: of the program; of several assignments to one name the last one counts.
        place: of the command that starts it.
    """
    for name, value in dict(environment).items():
        devices = [device.strip() for device in (value.string or "").split(",")]
        if name in DEVICE_NAMES and len(devices) <= _MOST and all(map(_DEVICE.fullmatch, devices)):
            return Count(value=len(devices), text=f"{name}={value}", location=place, yields=True)
    return None
