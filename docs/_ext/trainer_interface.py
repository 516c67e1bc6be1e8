"""``.. trainer-members:: Trainer``: every member of a protocol of trainers, out of the code.

What a docstring says under "Raises:" becomes a list; the rest is reStructuredText as it stands.
"""

import inspect
from collections.abc import Iterator

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata

from tuner.trainers import protocol

RAISES = "Raises:\n"


def members(interface: type) -> Iterator[tuple[str, str]]:
    """How each member is written, and its docstring, in the order of the code."""
    for name, member in vars(interface).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield name, inspect.getdoc(member.fget) or ""
        elif inspect.isfunction(member):
            yield f"{name}({_parameters(member)})", inspect.getdoc(member) or ""


def body(docstring: str) -> list[str]:
    """A docstring as reStructuredText."""
    text, _, raises = docstring.partition(RAISES)
    errors = (line.strip().partition(": ") for line in raises.splitlines())
    lines = [f"* ``{error}`` where {reason}" for error, _, reason in errors if error]
    return [*text.strip().splitlines(), "", *lines]


def _parameters(function: object) -> str:
    """Names only; a bare ``*`` stands before those that are given by name."""
    assert callable(function)
    written: list[str] = []
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in written:
            written.append("*")
        written.append(parameter.name)
    return ", ".join(written)


class TrainerMembers(SphinxDirective):
    """A list of the members with what their docstrings say."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """One entry per member."""
        return [
            nodes.definition_list(
                "",
                *(
                    nodes.definition_list_item("", _term(name), nodes.definition("", *self._parse(docstring)))
                    for name, docstring in members(getattr(protocol, self.arguments[0]))
                ),
            )
        ]

    def _parse(self, docstring: str) -> list[nodes.Node]:
        return nested_parse_to_nodes(self.state, StringList(body(docstring), source="<trainer>"))


def _term(name: str) -> nodes.term:
    return nodes.term("", "", nodes.literal(name, name), translatable=False)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("trainer-members", TrainerMembers)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
