"""``.. premise-keywords::``: what is said beside a configuration, by keyword and by option."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

from tables import table
from tuner.cli.premise_options import HELP
from tuner.consultation.premises import OPTIONS


class PremiseKeywords(SphinxDirective):
    """A table with one row per field of the premises."""

    def run(self) -> list[nodes.Node]:
        """Its keyword, its option, and the help of the option."""
        rows = [
            [f"``{keyword}``", f"``{option}``", HELP[option.removeprefix("--")]]
            for keyword, option in OPTIONS.items()
        ]
        header = ["Keyword", "Option", "Meaning"]
        return table(self, header, rows, prose=["Meaning"], widths=[20, 25, 55])


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive."""
    app.add_directive("premise-keywords", PremiseKeywords)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
