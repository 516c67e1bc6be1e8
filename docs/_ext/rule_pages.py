"""One page per rule, written from the rule before the sources are read, and the table of all rules.

The pages are ordinary sources, so their text is translated like any other. They are rewritten only
when they change, and pages of rules that are gone are deleted.
"""

from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.render.rule_page import RulePage, pages


@cache
def catalogue() -> dict[str, RulePage]:
    """Every rule's page by the rule's name."""
    return {page.rule.name: page for page in pages()}


def source(page: RulePage) -> str:
    """The page as reStructuredText."""
    name = page.rule.name
    # The search ranks titles first: with the code in it, the code finds its page.
    parts = [_heading(f"{page.rule.code}: {page.title}", "="), f".. rule-facts:: {name}\n"]
    parts += [f"{_heading(heading, '-')}\n{body}\n" for heading, body in page.sections if body]
    if page.example is not None:
        parts.append(f"{_heading('Example', '-')}\n.. rule-example:: {name}\n")
    return "\n".join(parts)


def _heading(text: str, underline: str) -> str:
    return f"{text}\n{underline * len(text)}\n"


def _write_pages(app: Sphinx) -> None:
    folder = Path(app.srcdir, "rules")
    for stale in folder.glob("*.rst"):
        if stale.stem not in catalogue() and stale.stem != "index":
            stale.unlink()
    for name, page in catalogue().items():
        path, text = folder / f"{name}.rst", source(page)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


class RuleTable(SphinxDirective):
    """All rules with a link to their pages, which follow in the same order."""

    def run(self) -> list[nodes.Node]:
        """One row per rule, by code."""
        rows = [
            [f":doc:`{name}`", f"``{name}``", page.rule.severity.value] for name, page in catalogue().items()
        ]
        header = ["Rule", "Name", "Severity"]
        toctree = [".. toctree::", "   :hidden:", "", *(f"   {name}" for name in catalogue())]
        return [
            *table(self, header, rows, prose=["Severity"], widths=[55, 30, 15]),
            *_parse(self, toctree),
        ]


class RuleFacts(SphinxDirective):
    """Name and properties of one rule."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """A table of one row."""
        page = catalogue()[self.arguments[0]]
        names, values = zip(*page.facts, strict=True)
        row = [f"``{page.rule.name}``", *values]
        return table(self, ["Name", *names], [row], prose=[name for name in names if name != "Since"])


def _parse(directive: SphinxDirective, lines: list[str]) -> list[nodes.Node]:
    return nested_parse_to_nodes(directive.state, StringList(lines, source="<rules>"))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directives and write the pages."""
    app.add_directive("rule-table", RuleTable)
    app.add_directive("rule-facts", RuleFacts)
    app.connect("builder-inited", _write_pages)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
