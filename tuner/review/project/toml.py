"""Reads a TOML file into plain values, and finds the line of a key: what reads TOML does not tell it."""

import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tuner.errors import InputError, Location
from tuner.files import read_bytes
from tuner.language import _
from tuner.units import MIB

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KeyPath = tuple[str | int, ...]
"""Keys from the top of a file down; a number is an element of an array."""

_MOST_BYTES = MIB
_KEY = r"(?:[\w-]+|\"[^\"]*\"|'[^']*')"
_DOTTED = rf"{_KEY}(?:\s*\.\s*{_KEY})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?")
_SETTING = re.compile(rf"(\s*)({_DOTTED})\s*=")
_PART = re.compile(_KEY)
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_MULTILINE = ('"""', "'''")


def read_toml(file: Path, *, source: str) -> tuple[str, dict[str, Any]]:
    """The text of a TOML file and its values; ``source`` names it in errors.

    Raises:
        InputError: it cannot be read, or is no TOML.
    """
    data = read_bytes(file, most=_MOST_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(
            _("byte 0x{data:02x} is not UTF-8").format(data=data[error.start]),
            location=Location(source=source, line=line),
            hint=_("save the file as UTF-8"),
        ) from None
    return text, parse_toml(text, source=source)


def parse_toml(text: str, *, source: str) -> dict[str, Any]:
    """The values of TOML text; ``source`` names it in errors.

    Raises:
        InputError: it is none.
    """
    try:
        values: dict[str, Any] = tomllib.loads(text)
        return values
    except tomllib.TOMLDecodeError as error:
        problem = str(error)
        at = _AT.search(problem)
        line, column = (int(at[1]), int(at[2])) if at is not None and at[1] else (None, None)
        raise InputError(
            _("this is not valid TOML: {problem}").format(problem=_AT.sub("", problem)),
            location=Location(source=source, line=line, column=column),
        ) from None
    except RecursionError:
        raise InputError(_("the file is nested too deeply"), location=Location(source=source)) from None


def place_of(text: str, path: KeyPath, *, source: str) -> Location:
    """Where a key stands, or the nearest one above it that has a line; the file where none has."""
    best, place = 0, Location(source=source)
    for at, line, column in _lines_of_keys(text):
        shared = _shared(at, path)
        if shared > best or (shared == best and best and at == path):
            best, place = shared, Location(source=source, line=line, column=column)
    return place


def _shared(at: KeyPath, path: KeyPath) -> int:
    """How many keys two paths share where one of them leads on from the other, else 0."""
    return min(len(at), len(path)) if all(a == b for a, b in zip(at, path, strict=False)) else 0


@lru_cache(maxsize=64)
def _lines_of_keys(text: str) -> Sequence[tuple[KeyPath, int, int]]:
    """Every key that begins a line, by its whole path, and every header of a table."""
    counted: dict[KeyPath, int] = {}
    table: KeyPath = ()
    listed: list[tuple[KeyPath, int, int]] = []
    quoted = ""  # the quotes of a text over several lines, in which nothing is a key
    for number, line in enumerate(text.split("\n"), start=1):
        if quoted:
            quoted = "" if quoted in line else quoted
            continue
        header, setting = _HEADER.match(line), _SETTING.match(line)
        if header is not None:
            table = _table(header[2], counted, is_array=header[1] == "[[")
            listed.append((table, number, header.start(2) + 1))
        elif setting is not None:
            listed.append(((*table, *_keys(setting[2])), number, len(setting[1]) + 1))
        quoted = next((mark for mark in _MULTILINE if line.count(mark) % 2), "")
    return listed


def _table(name: str, counted: dict[KeyPath, int], *, is_array: bool) -> KeyPath:
    """The path of a table; the arrays that it lies in are meant with their last element."""
    path: KeyPath = ()
    keys = _keys(name)
    for position, key in enumerate(keys):
        path = (*path, key)
        if is_array and position == len(keys) - 1:
            counted[path] = counted.get(path, -1) + 1
        if path in counted:
            path = (*path, counted[path])
    return path


def _keys(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
