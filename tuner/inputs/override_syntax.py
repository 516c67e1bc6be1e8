"""Writes overrides and their values in Hydra's grammar: what reads them gets back what was given."""

import re
from typing import Any

from tuner.errors import InputError, Location
from tuner.inputs.overrides import Argument, parse_overrides
from tuner.inputs.tree import Path

_NAME = re.compile(r"[A-Za-z_]\w*")
# Each begins where a run of backslashes does: tried from every one of them, a long run takes its square.
_AT_END = re.compile(r"(?<!\\)(\\+)\Z")
_BEFORE_QUOTE = re.compile(r"(?<!\\)(\\*)'")
_BARE = re.compile(
    r"[\w/.$%*@?|+-]+(?::[\w/.$%*@?|+-]+)*", re.ASCII
)  # what Hydra takes without quotation marks


def has_name(path: Path) -> bool:
    """Whether an override can name a key: Hydra has no way to write one with a dot or a blank in it."""
    return all(_NAME.fullmatch(part) for part in path)


def override_value(value: Any) -> str:
    """A value as an override has it, which Hydra reads as the same value."""
    if value is None:
        return "null"
    if isinstance(value, dict):
        pairs = ",".join(f"{override_value(key)}:{override_value(child)}" for key, child in value.items())
        return f"{{{pairs}}}"
    if isinstance(value, list):
        return f"[{','.join(map(override_value, value))}]"
    return _text(value) if isinstance(value, str) else str(value)


def override(key: str, value: Any, sign: str = "") -> str:
    """An override that sets a key to a value, with the sign before it that adds the key."""
    return f"{sign}{key}={override_value(value)}"


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one type: 1, 1.0 and True are read otherwise."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or (one != one and other != other)  # the last: what is no number


def _text(text: str) -> str:
    """Text as it is where Hydra reads it so, in quotation marks elsewhere."""
    if (_BARE.fullmatch(text) or _is_interpolation(text)) and same(_read(text), text):
        return text
    escaped = _AT_END.sub(r"\1\1", _BEFORE_QUOTE.sub(r"\1\1\\'", text))
    return f"'{escaped}'"


def _is_interpolation(text: str) -> bool:
    return text.startswith("${") and text.endswith("}") and text.count("${") == 1


def _read(text: str) -> Any:
    """What Hydra reads behind the ``=``; None where it reads nothing."""
    try:
        (override,) = parse_overrides([Argument(text=f"key={text}", location=Location(source=""))]).overrides
    except InputError:
        return None
    return override.value
