"""``.. report-reference:: report``: every object and field of a JSON output."""

from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.render.schemas import schema


def type_name(field: dict[str, Any]) -> str:
    """A field's type in words of JSON; objects by the name of their definition."""
    if "$ref" in field:
        return str(field["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in field:
        return " | ".join(type_name(option) for option in field["anyOf"])
    if "const" in field:
        return repr(field["const"])
    if field.get("type") == "array":
        items = field.get("items") or (field.get("prefixItems") or [{}])[0]
        return f"array of {type_name(items)}"
    return str(field.get("type", "any"))


class ReportReference(SphinxDirective):
    """The objects of one output: a description, and a table of fields."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The output itself, then its objects by name, then its enumerations."""
        content = schema(self.arguments[0])
        definitions = content.get("$defs", {})
        sections = self._object(content["title"], content)
        for name, definition in definitions.items():
            describe = self._enumeration if "enum" in definition else self._object
            sections += describe(name, definition)
        return sections

    def _object(self, name: str, definition: dict[str, Any]) -> list[nodes.Node]:
        rows = [
            [f"``{field}``", type_name(value), value.get("description", "")]
            for field, value in definition.get("properties", {}).items()
        ]
        fields = table(self, ["Field", "Type", "Meaning"], rows, prose=["Meaning"], widths=[25, 30, 45])
        return [*self._heading(name, definition), *(fields if rows else [])]

    def _enumeration(self, name: str, definition: dict[str, Any]) -> list[nodes.Node]:
        values = ", ".join(f"``{value}``" for value in definition["enum"])
        paragraph = self._parse(values)
        for node in paragraph:
            node["translatable"] = False
        return [*self._heading(name, definition), *paragraph]

    def _heading(self, name: str, definition: dict[str, Any]) -> list[nodes.Node]:
        rubric = nodes.rubric(name, name, translatable=False)
        text = definition.get("description", "").split("\n\n")[0]
        return [rubric, *(self._parse(text) if text else [])]

    def _parse(self, text: str) -> list[nodes.Node]:
        return nested_parse_to_nodes(self.state, StringList(text.splitlines(), source="<schema>"))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("report-reference", ReportReference)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
