"""Writes a report as JSON, whatever bytes stand in what the user gave."""

import json

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError


def json_text(report: BaseModel, *, by_alias: bool = False, indent: int | None = 2) -> str:
    """A report as JSON.

    What is not UTF-8 on a command line or in the name of a file reaches Python as lone surrogates, which
    pydantic does not write: they stand as the escapes that JSON has for them.
    """
    try:
        return report.model_dump_json(indent=indent, by_alias=by_alias)
    except PydanticSerializationError:
        text = json.dumps(
            report.model_dump(mode="json", by_alias=by_alias), indent=indent, ensure_ascii=False
        )
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
