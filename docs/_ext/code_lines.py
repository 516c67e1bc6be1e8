"""``.. code-lines:: NAME``: the lines of verl's releases that the refusal of a check rests on."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from rule_pages import catalogue
from rule_sources import file_address
from tables import table
from tuner.trainers.verl.checks import guards_by_release

_MOST = 3  # lines of one guard in one release


class CodeLines(SphinxDirective):
    """A row for each release that has such lines."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The releases, and in each the first lines of every guard."""
        self.env.note_dependency(str(guards_by_release.FILE))
        code = catalogue()[self.arguments[0]].rule.code
        rows = []
        for release, checks in guards_by_release.read().items():
            lines = [line for found in checks.get(code, {}).values() for line in found[:_MOST]]
            if lines:
                rows.append([release, ", ".join(_link(release, line) for line in dict.fromkeys(lines))])
        return table(self, ["Release", "Lines"], rows, widths=[12, 88]) if rows else []


def _link(release: str, line: str) -> str:
    return f"`{line.rpartition('/')[2]} <{file_address(release, line)}>`__"


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("code-lines", CodeLines)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
