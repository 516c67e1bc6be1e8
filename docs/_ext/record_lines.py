"""``.. record-lines::``: the lines of a record with their fields, from the types that write and read them."""

from typing import Any, get_args

import msgspec
from docutils import nodes
from docutils.statemachine import StringList
from msgspec import Struct
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.inputs.record.form import Line, OneFileLine

_NAMES = {"string": "text", "array": "list"}  # of JSON's types, as the table has them


class RecordLines(SphinxDirective):
    """A table for each kind of line; with ``one-file`` for those that only a record in one file has."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The kind, what it is, and its fields."""
        header = ["Field", "Type", "What it is"]
        parts: list[nodes.Node] = []
        kinds = get_args(Line)
        if self.arguments == ["one-file"]:
            kinds = tuple(kind for kind in get_args(OneFileLine) if kind not in kinds)
        for kind in kinds:
            says = (kind.__doc__ or "").strip().splitlines()[0]
            lines = [f'``"line": "{kind.__struct_config__.tag}"``', "", says]
            parts += nested_parse_to_nodes(self.state, StringList(lines, source="<record lines>"))
            parts += table(self, header, _rows(kind), prose=header[2:], widths=[25, 20, 55])
        return parts


def _rows(kind: type[Struct]) -> list[list[str]]:
    fields = msgspec.json.schema(kind)["$defs"][kind.__name__]["properties"]
    own = (pair for pair in fields.items() if pair[0] != "line")
    return [[f"``{name}``", _type(field), field["description"]] for name, field in own]


def _type(field: dict[str, Any]) -> str:
    """The JSON type of a field, and whether it may be null."""
    either = field.get("anyOf") or field.get("allOf") or [field]
    return " or ".join(_kind(kind) for kind in either)


def _kind(schema: dict[str, Any]) -> str:
    kind: str = schema.get("type", "string")  # a phase refers to the list of all
    if kind == "object":
        kind_of_value = schema["additionalProperties"].get("type", "string")
        return {"number": "numbers by name", "object": "objects by name"}.get(kind_of_value, "text by name")
    return _NAMES.get(kind, kind)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("record-lines", RecordLines)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
