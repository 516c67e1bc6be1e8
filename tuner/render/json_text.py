"""Writes a report as JSON, whatever bytes stand in what the user gave, and its long lists entry by entry."""

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from tuner.workload.head import UNPUBLISHED

_INDENT = "  "
_AS_THEY_ARE = frozenset({str, int, float, bool, type(None)})  # most of a report


def json_text(report: Struct, *, indent: int | None = 2) -> str:
    """A report as JSON.

    What is not UTF-8 on a command line or in the name of a file reaches Python as lone surrogates, which
    msgspec does not write: they stand as the escapes that JSON has for them.
    """
    value = published(report)
    try:
        text = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return escaped(value, indent=indent)
    return (text if indent is None else msgspec.json.format(text, indent=indent)).decode()


def published(value: Any) -> Any:
    """A value as JSON has it: structs with the fields that are published, enumerations by their values."""
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Struct):
        return {
            name: _of_field(getattr(value, name), number=number)
            for name, number in _published_fields(type(value))
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {published(key): published(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(published, value))
    if hasattr(value, "model_dump"):  # a measured pass, which pydantic has read
        return value.model_dump(mode="json", by_alias=True)
    return value


def _of_field(value: Any, *, number: bool) -> Any:
    """The value of a field; a whole number is written as what the field holds, 8.0 among 7.5 and 8.5."""
    return float(value) if number and isinstance(value, int) else published(value)


@cache
def _published_fields(struct: type[Struct]) -> tuple[tuple[str, bool], ...]:
    """The names of the fields that are published, each with whether it holds any number."""
    return tuple(
        (field.name, _is_number(field.type))
        for field in fields(struct)
        if UNPUBLISHED not in getattr(field.type, "__metadata__", ())
    )


def _is_number(hint: Any) -> bool:
    parts = get_args(hint) if get_origin(hint) in (Annotated, Union, UnionType) else ()
    return hint is float or (int not in parts and any(map(_is_number, parts)))


def escaped(value: object, *, indent: int | None = 2) -> str:
    """A value as JSON, with lone surrogates as the escapes that JSON has for them."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def filled(report: str, lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """A report whose long lists are made while it is written, piece by piece.

    Args:
        report: JSON with two blanks for each level, in which these lists are empty.
        lists: by their names, in the order of the report; each entry as JSON with two blanks for each level.
    """
    for name, entries in lists.items():
        # Nowhere else: within a text of JSON a quotation mark has a backslash before it.
        before, beginning, report = report.partition(f'"{name}": ')
        yield before + beginning
        yield from listed(entries, before.rpartition("\n")[2])
        report = report.removeprefix("[]")
    yield report


def listed(entries: Iterable[str], margin: str = "") -> Iterator[str]:
    """A list of JSON, piece by piece.

    Args:
        entries: as JSON with two blanks for each level.
        margin: blanks before the line on which the list begins.
    """
    inner = f"\n{margin}{_INDENT}"
    before = "["
    for entry in entries:
        yield before + inner + entry.replace("\n", inner)
        before = ","
    yield "[]" if before == "[" else f"\n{margin}]"
