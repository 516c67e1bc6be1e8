"""Writes a report as JSON, whatever bytes stand in what the user gave, and its long lists entry by entry."""

import json
from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

_INDENT = "  "


def json_text(report: BaseModel, *, by_alias: bool = False, indent: int | None = 2) -> str:
    """A report as JSON.

    What is not UTF-8 on a command line or in the name of a file reaches Python as lone surrogates, which
    pydantic does not write: they stand as the escapes that JSON has for them.
    """
    try:
        return report.model_dump_json(indent=indent, by_alias=by_alias)
    except PydanticSerializationError:
        return escaped(report.model_dump(mode="json", by_alias=by_alias), indent=indent)


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
