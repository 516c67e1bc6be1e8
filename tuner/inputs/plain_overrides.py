"""Reads overrides that need no parser: a dotted key, and a word, a number or a list of these.

Importing Hydra and its generated parser takes longer than all estimates of one answer, and nearly every
override has this form. The patterns are those of the tokens in Hydra's grammar. A value made only of
characters that a primitive may have is text, unless the whole of it is one other token. Anything else,
and whatever is wrong, is left to Hydra.

Source: Hydra 1.3 ``grammar/OverrideLexer.g4``, ``grammar/OverrideParser.g4`` (``override``, ``primitive``,
``listContainer``).
"""

import re
from functools import lru_cache
from typing import Any

from msgspec import Struct

_UNSIGNED = r"(?:0|[1-9](?:_?[0-9])*)"
_POINT = rf"(?:{_UNSIGNED}\.|{_UNSIGNED}?\.[0-9](?:_?[0-9])*)"
_EXPONENT = rf"(?:{_UNSIGNED}|{_POINT})[eE][+-]?[0-9](?:_?[0-9])*"

_OVERRIDE = re.compile(r"(\+{0,2})([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*){0,32})=(.*)", re.DOTALL)
_FLOAT = re.compile(rf"[+-]?(?:{_EXPONENT}|{_POINT}|[Ii][Nn][Ff]|[Nn][Aa][Nn])")
_INTEGER = re.compile(rf"[+-]?{_UNSIGNED}")
_QUOTED = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
_CHARACTERS = r"[A-Za-z0-9_/.$%*@?|+-]+"  # without braces there is no interpolation
_WORD = re.compile(rf"{_CHARACTERS}(?::+{_CHARACTERS})*")  # a colon takes the blanks around it into the text
_LIST = re.compile(r"\[[ \t]*(.*?)[ \t]*\]", re.DOTALL)
_SHORT = 256  # characters: longer ones are seldom met again
_LONGEST_INTEGER = 1_000  # characters; Python converts no more than 4,300 digits
_CONSTANTS = {"true": True, "false": False, "null": None}


class PlainOverride(Struct, frozen=True, kw_only=True):
    """What Hydra reads from an override of this form."""

    prefix: str  # "", "+" or "++"
    key: str
    value: Any


class _NotPlain(Exception):  # noqa: N818 - no error: Hydra reads it
    pass


def read_plain(text: str) -> PlainOverride | None:
    """The override, exactly as Hydra reads it; None where only Hydra can tell."""
    return _read_short(text) if len(text) <= _SHORT else _read(text)


@lru_cache(maxsize=1024)  # alike configurations have most of theirs in common
def _read_short(text: str) -> PlainOverride | None:
    return _read(text)


def _read(text: str) -> PlainOverride | None:
    match = _OVERRIDE.fullmatch(text)
    if match is None:
        return None
    prefix, key, value = match.groups()
    try:
        return PlainOverride(prefix=prefix, key=key, value=_value(value))
    except _NotPlain:
        return None


def _value(text: str) -> Any:
    items = _LIST.fullmatch(text)
    if items is None:
        return _primitive(text) if text else ""
    if not items[1]:
        return []
    # No comma stands within a primitive here: the halves of a quoted one that has a comma are not plain.
    return [_primitive(item.strip(" \t")) for item in items[1].split(",")]


def _primitive(text: str) -> Any:
    if _QUOTED.fullmatch(text):
        return text[1:-1]
    if not _WORD.fullmatch(text):
        raise _NotPlain
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INTEGER.fullmatch(text):
        if len(text) > _LONGEST_INTEGER:
            raise _NotPlain
        return int(text)
    return _CONSTANTS.get(text.lower(), text)
