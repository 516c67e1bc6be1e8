"""The operators of ``${name...}`` on known strings.

Source: GNU Bash manual, "Shell Parameter Expansion".
"""

import re
from fnmatch import translate
from functools import lru_cache

_LONGEST = 100_000  # characters of a string that patterns are tried on


@lru_cache(maxsize=256)
def pattern(glob: str) -> re.Pattern[str]:
    """A pattern of the shell as a regular expression for a whole string."""
    return re.compile(translate(glob.replace("[^", "[!")), re.DOTALL)


def without_prefix(value: str, glob: str, *, longest: bool) -> str:
    """``${name#glob}`` and ``${name##glob}``."""
    if len(value) > _LONGEST:
        return value
    ends = range(len(value), -1, -1) if longest else range(len(value) + 1)
    matching = pattern(glob)
    return next((value[end:] for end in ends if matching.match(value[:end])), value)


def without_suffix(value: str, glob: str, *, longest: bool) -> str:
    """``${name%glob}`` and ``${name%%glob}``."""
    if len(value) > _LONGEST:
        return value
    starts = range(len(value) + 1) if longest else range(len(value), -1, -1)
    matching = pattern(glob)
    return next((value[:start] for start in starts if matching.match(value[start:])), value)


def replaced(value: str, glob: str, by: str, *, operator: str) -> str:
    """``${name/glob/by}`` with ``operator`` ``/``, ``//``, ``/#`` or ``/%``."""
    if len(value) > _LONGEST or (not glob and operator in ("/", "//")):
        return value
    expression = translate(glob.replace("[^", "[!"))
    core = re.sub(r"^\(\?s:(.*)\)\\[Zz]$", r"(?s:\1)", expression)
    anchored = {"/#": rf"\A{core}", "/%": rf"{core}\Z"}.get(operator, core)
    return re.sub(anchored, lambda _: by, value, count=0 if operator == "//" else 1)


def in_case(value: str, operator: str) -> str:
    """``${name^^}``, ``${name,,}``, ``${name^}`` and ``${name,}``."""
    if operator in ("^^", ",,"):
        return value.upper() if operator == "^^" else value.lower()
    first = value[:1].upper() if operator == "^" else value[:1].lower()
    return first + value[1:]


def substring(value: str, offset: int, length: int | None) -> str:
    """``${name:offset}`` and ``${name:offset:length}``."""
    start = offset if offset >= 0 else max(0, len(value) + offset)
    if length is None:
        return value[start:]
    return value[start : start + length] if length >= 0 else value[start:length]
