"""The operators of ``${name...}`` on known strings.

Source: GNU Bash manual, "Shell Parameter Expansion".
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

from tuner.inputs.shell import globs

_T = TypeVar("_T")

LONGEST = 4_000  # characters of a string that patterns are tried on
LONGEST_PATTERN = 400
_LONGEST_SEARCHED = 400  # characters that a regular expression is tried on
_MOST_REPEATS = 3  # in a regular expression; its time grows with this power of the text
_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
}


@lru_cache(maxsize=256)
def pattern(glob: str) -> re.Pattern[str]:
    """A pattern of the shell as a regular expression for a whole string."""
    return re.compile(rf"(?:{globs.expression(glob)})\Z", re.DOTALL)


def searched(value: str, expression: str) -> bool | None:
    """``[[ value =~ expression ]]``; None for an expression that could take for ever, or is not Python's."""
    for name, members in _CLASSES.items():
        expression = expression.replace(f"[:{name}:]", members)
    repeats = re.findall(r"[*+?{]", expression)
    doubtful = re.search(r"\)[*+?{]|\\[0-9]|\[\[|\(\?|--|&&|~~|\|\||\{\d{3}", expression)
    if (
        len(value) > _LONGEST_SEARCHED
        or len(expression) > LONGEST_PATTERN
        or len(repeats) > _MOST_REPEATS
        or doubtful
    ):
        return None
    try:
        return re.search(expression, value) is not None
    except (re.error, OverflowError, RecursionError):
        return None


def without_prefix(value: str, glob: str, *, longest: bool) -> str:
    """``${name#glob}`` and ``${name##glob}``."""
    if len(value) > LONGEST:
        return value
    ends = range(len(value), -1, -1) if longest else range(len(value) + 1)
    matching = pattern(glob)
    return next((value[end:] for end in ends if matching.match(value[:end])), value)


def without_suffix(value: str, glob: str, *, longest: bool) -> str:
    """``${name%glob}`` and ``${name%%glob}``."""
    if len(value) > LONGEST:
        return value
    starts = range(len(value) + 1) if longest else range(len(value), -1, -1)
    matching = pattern(glob)
    return next((value[:start] for start in starts if matching.match(value[start:])), value)


def replaced(value: str, glob: str, by: str, *, operator: str) -> str:
    """``${name/glob/by}`` with ``operator`` ``/``, ``//``, ``/#`` or ``/%``."""
    if len(value) > LONGEST or (not glob and operator in ("/", "//")):
        return value
    core = f"(?s:{globs.expression(glob)})"
    anchored = {"/#": rf"\A{core}", "/%": rf"{core}\Z"}.get(operator, core)
    return re.sub(anchored, lambda _: by, value, count=0 if operator == "//" else 1)


def in_case(value: str, operator: str) -> str:
    """``${name^^}``, ``${name,,}``, ``${name^}`` and ``${name,}``."""
    if operator in ("^^", ",,"):
        return value.upper() if operator == "^^" else value.lower()
    first = value[:1].upper() if operator == "^" else value[:1].lower()
    return first + value[1:]


def elements(values: Sequence[_T], offset: int, length: int | None) -> list[_T]:
    """``${array[@]:offset:length}``; an offset from the end that is beyond the first leaves none."""
    if offset < -len(values) or (length is not None and length < 0):
        return []
    start = offset if offset >= 0 else len(values) + offset
    return list(values[start:] if length is None else values[start : start + length])


def substring(value: str, offset: int, length: int | None) -> str:
    """``${name:offset}`` and ``${name:offset:length}``."""
    start = offset if offset >= 0 else len(value) + offset
    if start < 0:  # from before its beginning
        return ""
    if length is None:
        return value[start:]
    return value[start : start + length] if length >= 0 else value[start:length]
