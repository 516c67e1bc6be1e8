"""From values as YAML and Hydra give them to the types that a reader wants."""

import math
from typing import Any

from tuner.inputs.tree import shown
from tuner.language import _


def number_expected(minimum: float | None, maximum: float | None) -> str:
    """What a number within bounds is called in a message."""
    if minimum is not None and maximum is not None:
        return _("a number from {minimum:g} to {maximum:g}").format(minimum=minimum, maximum=maximum)
    if minimum is not None:
        return _("a number >= {minimum:g}").format(minimum=minimum)
    return _("a number") if maximum is None else _("a number <= {maximum:g}").format(maximum=maximum)


def as_number(value: Any) -> float | None:
    """A finite number, None for anything else. Quoted numbers count, booleans do not."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_integer(value: Any) -> int | None:
    """A whole number, None for anything else. Quoted digits and whole floats count, booleans do not."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            pass
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() else None


def as_flag(value: Any) -> bool | None:
    """A boolean, or 0 or 1; None for anything else."""
    if isinstance(value, bool):
        return value
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


def as_text(value: Any) -> str | None:
    """Text or the spelling of a number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return str(value)


def described(value: Any) -> str:
    """A value as a message calls it."""
    if isinstance(value, dict):
        return (
            _("a section with the keys {value}").format(value=", ".join(list(value)[:3]))
            if value
            else _("an empty section")
        )
    return str(value).lower() if isinstance(value, bool) else shown(value)
