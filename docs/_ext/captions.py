"""Captions of the navigation say which level of heading they are, which screen readers ask for."""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

_TREE = "furo_navigation_tree"
_AFTER_THE_THEME = 900


def _level(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Sphinx gives captions the role of a heading and no level."""
    tree = str(context.get(_TREE, ""))
    context[_TREE] = tree.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Sphinx) -> ExtensionMetadata:
    """Fix the navigation once the theme has made it."""
    app.connect("html-page-context", _level, priority=_AFTER_THE_THEME)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
