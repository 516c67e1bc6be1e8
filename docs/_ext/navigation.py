"""The tree of all pages in the sidebar, resolved once for a site and adapted to each page.

Sphinx resolves it anew for every page, which takes a third of a build: each copy has the same entries, with
links that are relative to the page and with the branch marked in which the page stands.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.util.osutil import relative_uri
from sphinx.util.typing import ExtensionMetadata

NO_PAGE = "search"  # at the top of the site, and not in the tree: nothing is marked
BEFORE_THE_THEME = 400  # which asks for the tree at the usual 500

Asked = tuple[tuple[str, Any], ...]


class Navigation:
    """The resolved tree of one build, for one set of options that a theme asks with."""

    def __init__(self, builder: StandaloneHTMLBuilder, asked: Asked) -> None:
        self._builder = builder
        self._tree = global_toctree_for_doc(builder.env, NO_PAGE, builder, tags=builder.tags, **dict(asked))
        found = [] if self._tree is None else self._tree.findall(nodes.reference)
        self._entries = [(entry, entry["refuri"]) for entry in found if entry.get("internal")]

    def html(self, page: str) -> str:
        """The tree as it stands on a page."""
        here = self._builder.get_target_uri(page)
        marked = [node for entry, uri in self._entries if uri == here for node in _branch(entry)]
        for entry, uri in self._entries:
            entry["refuri"] = relative_uri(here, uri) or "#"
        for node in marked:
            node["classes"].append("current")
        html: str = self._builder.render_partial(self._tree)["fragment"]
        for node in marked:
            node["classes"].remove("current")
        return html


def _branch(entry: nodes.Element) -> list[nodes.Element]:
    """An entry and all that it stands in."""
    branch: list[nodes.Element] = []
    node: nodes.Element | None = entry
    while isinstance(node, nodes.Element) and not isinstance(node, nodes.document):
        branch.append(node)
        node = node.parent
    return branch


def _hand_over(
    app: Sphinx, page: str, _: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    builder = app.builder
    if not isinstance(builder, StandaloneHTMLBuilder) or doctree is None:
        return

    def tree(**options: Any) -> str:
        asked = tuple(sorted(options.items()))
        if asked not in _resolved:
            _resolved[asked] = Navigation(builder, asked)
        return _resolved[asked].html(page)

    context["toctree"] = tree


_resolved: dict[Asked, Navigation] = {}  # of the build that runs


def _forget(_: Sphinx) -> None:
    _resolved.clear()


def setup(app: Sphinx) -> ExtensionMetadata:
    """Put the adapted tree where themes ask for the resolved one."""
    app.connect("builder-inited", _forget)
    app.connect("html-page-context", _hand_over, priority=BEFORE_THE_THEME)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
