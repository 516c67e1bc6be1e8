"""From values as YAML and Hydra give them to the types that a reader wants."""

import contextlib
import math
from typing import Any

from tuner.inputs.tree import shown
from tuner.language import _
from tuner.units import LARGEST

_TRUE = frozenset({"true", "yes", "on", "y", "t", "1"})
LARGEST_READ = 2**64
"""No whole number of a configuration is larger, whatever reads it: a seed, a hash."""


def number_expected(minimum: float | None, maximum: float | None) -> str:
    """What a number within bounds is called in a message."""
    if minimum is not None and maximum is not None:
        return _("a number from {minimum:g} to {maximum:g}").format(minimum=minimum, maximum=maximum)
    if minimum is not None:
        return _("a number >= {minimum:g}").format(minimum=minimum)
    return _("a number") if maximum is None else _("a number <= {maximum:g}").format(maximum=maximum)


def as_number(value: Any) -> float | None:
    """A number up to :data:`tuner.units.LARGEST`, None for anything else.

    Quoted numbers count, booleans do not.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= LARGEST else None  # also no infinity and nothing that is no number


def as_integer(value: Any) -> int | None:
    """A whole number up to :data:`tuner.units.LARGEST`, None for anything else.

    Quoted digits and whole floats count, booleans do not.
    """
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= LARGEST else None
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() else None


def as_flag(value: Any) -> bool | None:
    """A boolean, 0 or 1, or text that says true; None for anything else.

    A program that asks for no more than that takes any text but an empty one for true. Text that reads as the
    opposite, or as neither, is a mistake.
    """
    if isinstance(value, str):
        return True if value.strip().lower() in _TRUE else None
    return bool(value) if isinstance(value, int) and value in (0, 1) else None


def as_truth(value: Any) -> bool | None:
    """What Python takes a value for, of a number; a flag else, None for anything else."""
    return bool(value) if isinstance(value, (int, float)) else as_flag(value)


def as_text(value: Any) -> str | None:
    """Text or the spelling of a number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    return str(value)


def has_too_large(value: Any) -> bool:
    """Whether a value is, or holds, a whole number that no setting takes."""
    if isinstance(value, dict):
        return any(map(has_too_large, value.values()))
    if isinstance(value, list):
        return any(map(has_too_large, value))
    return isinstance(value, int) and abs(value) > LARGEST_READ


def described(value: Any) -> str:
    """A value as a message calls it."""
    if isinstance(value, int) and abs(value) > LARGEST:
        return _("a number with {digits} digits").format(digits=_digits(value))
    if isinstance(value, dict):
        return (
            _("a section with the keys {value}").format(value=", ".join(list(value)[:3]))
            if value
            else _("an empty section")
        )
    return str(value).lower() if isinstance(value, bool) else shown(value)


def _digits(number: int) -> int:
    """The decimal digits of a number, which may be too many to be written out."""
    return math.floor(abs(number).bit_length() * math.log10(2)) + 1
