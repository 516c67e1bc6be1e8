"""``.. kernel-text:: tuner.kernels.statistics``: the formulas in a module's text, without importing it.

The modules need torch and Triton, which building the pages does not.
"""

import ast
import inspect
import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata

_ROOT = Path(__file__).parents[2]
# Names of objects that no page describes.
_REFERENCE = re.compile(r":(?:class|func|mod):`~?([^`]+)`")


def module_text(source: str) -> str:
    """What a module says of itself but for its first line, which the page says in its own words."""
    _, _, text = inspect.cleandoc(ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    return _REFERENCE.sub(r"``\1``", text)


class KernelText(SphinxDirective):
    """The text of one module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """As it would be if it were written on the page."""
        path = _ROOT.joinpath(*self.arguments[0].split(".")).with_suffix(".py")
        self.env.note_dependency(str(path))
        text = module_text(path.read_text(encoding="utf-8"))
        source = f"docstring of {self.arguments[0]}"
        return nested_parse_to_nodes(self.state, StringList(text.splitlines(), source=source))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("kernel-text", KernelText)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
