"""Writes a report as JSON, whatever bytes stand in what the user gave, and its long lists entry by entry."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from tuner.render.publication import facts_of, is_table, publication_of

_INDENT = "  "


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
    """A value as JSON has it: structs with the facts that are published, enumerations by their values."""
    return _writer_of(value.__class__)(value)


Writer = Callable[[Any], Any]


@cache  # a report has some ten thousand values of a few types
def _writer_of(kind: type) -> Writer:
    """What writes the values of a class."""
    if issubclass(kind, Struct) or publication_of(kind) is not None:
        return partial(_facts, [(fact.name, _writer(fact.hint)) for fact in facts_of(kind)])
    if issubclass(kind, Enum):
        return attrgetter("value")
    if issubclass(kind, Mapping):
        return _table
    if issubclass(kind, (list, tuple)):
        return _list
    return _measured_pass if hasattr(kind, "model_dump") else _itself


def _writer(hint: Any) -> Writer:
    """What writes the values of a fact."""
    if is_table(hint):
        return _table
    return _number if _is_number(hint) else published


def _facts(facts: Iterable[tuple[str, Writer]], value: Any) -> dict[str, Any]:
    return {name: write(getattr(value, name)) for name, write in facts}


def _table(pairs: Any) -> dict[Any, Any]:
    return {published(key): published(child) for key, child in dict(pairs).items()}


def _list(values: Iterable[Any]) -> list[Any]:
    return [published(value) for value in values]


def _measured_pass(value: Any) -> Any:
    """A measured pass, which pydantic has read."""
    return value.model_dump(mode="json", by_alias=True)


def _itself(value: Any) -> Any:
    return value


def _number(value: Any) -> Any:
    """Any number; a whole one is written as what the field holds, 8.0 among 7.5 and 8.5."""
    return float(value) if isinstance(value, int) else published(value)


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
