"""The tree of all pages in the sidebar, made once for a site and adapted to each page.

Sphinx resolves it anew for every page and the theme parses what it has written, together half of writing a
site: each copy has the same entries, with links that are relative to the page and with the branch marked in
which the page stands. Here links and marks are places of one text.
"""

import re
from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment.adapters.toctree import global_toctree_for_doc
from sphinx.util.osutil import relative_uri
from sphinx.util.typing import ExtensionMetadata

NO_PAGE = "search"  # at the top of the site, and not in the tree: nothing is marked
THEME = "furo"
TREE = "furo_navigation_tree"
BEFORE_THE_THEME, BEHIND_THE_THEME = 400, 600  # which asks for the tree at the usual 500

Asked = tuple[tuple[str, Any], ...]

#: Places: the class that marks a node alone, before others and behind others; a link; what the theme marks.
_PLACE = re.compile(
    r' class="nav-(\d+)"|nav-(\d+) | nav-(\d+)|nav-link-(\d+)| nav-page-(\d+)| nav-open-(\d+)'
)
_ITEM = re.compile(r'(<li class="[^"]*?nav-(\d+)[^"]*)"')
_FOLDED = re.compile(r'(<li class="[^"]*?nav-(\d+) has-children.*?<input aria-label="[^"]*")', re.DOTALL)


class Navigation:
    """The resolved tree of one build, for one set of options that a theme asks with."""

    def __init__(self, builder: StandaloneHTMLBuilder, asked: Asked) -> None:
        self._builder = builder
        tree = global_toctree_for_doc(builder.env, NO_PAGE, builder, tags=builder.tags, **dict(asked))
        every = [] if tree is None else [node for node in tree.findall(nodes.Element) if node is not tree]
        number = {id(node): place for place, node in enumerate(every)}
        self._items = {number[id(node)] for node in every if isinstance(node, nodes.list_item)}
        self._links: dict[int, str] = {}
        self._branches: dict[str, set[int]] = {}
        for node in every:
            if isinstance(node, nodes.reference) and node.get("internal"):
                place, uri = number[id(node)], node["refuri"]
                self._links[place] = uri
                branch = {number[id(one)] for one in _branch(node) if id(one) in number}
                self._branches.setdefault(uri, set()).update(branch)
                node["refuri"] = f"nav-link-{place}"
        for node in every:
            node["classes"].append(f"nav-{number[id(node)]}")
        self.text: str = "" if tree is None else builder.render_partial(tree)["fragment"]

    def adapted(self, themed: str, page: str) -> str:
        """The tree as it stands on a page, of what the theme has made of its text."""
        here = self._builder.get_target_uri(page)
        marked = self._branches.get(here, set())
        last = max(marked & self._items, default=None)

        def filled(place: re.Match[str]) -> str:
            alone, before, behind, link, item, folded = (
                None if one is None else int(one) for one in place.groups()
            )
            if link is not None:
                return escape(relative_uri(here, self._links[link]) or "#")
            if item is not None:
                return " current-page" if item == last else ""
            if folded is not None:
                return ' checked=""' if folded in marked else ""
            if alone is not None:
                return ' class="current"' if alone in marked else ""
            if before is not None:
                return "current " if before in marked else ""
            return " current" if behind in marked else ""

        return _PLACE.sub(filled, themed)


def _branch(entry: nodes.Element) -> list[nodes.Element]:
    """An entry and all that it stands in."""
    branch: list[nodes.Element] = []
    node: nodes.Element | None = entry
    while isinstance(node, nodes.Element) and not isinstance(node, nodes.document):
        branch.append(node)
        node = node.parent
    return branch


def with_places(themed: str) -> str:
    """The theme's text with places for what it marks itself: the item of the page, and what is unfolded."""
    themed = _FOLDED.sub(r"\1 nav-open-\2", themed)
    return _ITEM.sub(r'\1 nav-page-\2"', themed)


def _hand_over(
    app: Sphinx, page: str, _: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    builder = app.builder
    if not isinstance(builder, StandaloneHTMLBuilder) or doctree is None or app.config.html_theme != THEME:
        return

    def tree(**options: Any) -> str:
        asked = tuple(sorted(options.items()))
        if asked not in _resolved:
            _resolved[asked] = Navigation(builder, asked)
        context[_ASKED] = asked
        return _resolved[asked].text

    context["toctree"] = tree


def _adapt(app: Sphinx, page: str, _: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    asked = context.pop(_ASKED, None)
    if asked is not None:
        themed = str(context[TREE])
        if themed not in _themed:
            _themed[themed] = with_places(themed)
        context[TREE] = _resolved[asked].adapted(_themed[themed], page)


_ASKED = "tuner_navigation"  # in the context of a page
_resolved: dict[Asked, Navigation] = {}  # of the build that runs
_themed: dict[str, str] = {}  # with places, by what the theme made


def _forget(_: Sphinx) -> None:
    _resolved.clear()
    _themed.clear()


def setup(app: Sphinx) -> ExtensionMetadata:
    """Put the adapted tree where the theme's own stands."""
    app.connect("builder-inited", _forget)
    app.connect("html-page-context", _hand_over, priority=BEFORE_THE_THEME)
    app.connect("html-page-context", _adapt, priority=BEHIND_THE_THEME)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
