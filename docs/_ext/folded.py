"""``.. question::`` and ``.. folded::``: what a reader unfolds, an answer below a question or a long table.

The argument is what is seen while it is folded; it is translated as a paragraph is.
"""

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata, OptionSpec
from sphinx.writers.html5 import HTML5Translator


class Folded(nodes.General, nodes.Element):  # type: ignore[misc]
    """A summary, and what is seen once it is unfolded."""


class FoldedSummary(nodes.Part, nodes.TextElement):  # type: ignore[misc]
    """The line that is always seen."""


def folded(directive: SphinxDirective, summary: str, content: list[nodes.Node], *classes: str) -> Folded:
    """What stands behind a summary, in the markup of reStructuredText.

    Args:
        directive: who asks.
        summary: the line that is always seen.
        content: what it hides.
        classes: for the style sheet.
    """
    words, messages = directive.state.inline_text(summary, directive.lineno)
    line = FoldedSummary(summary, "", *words)
    directive.set_source_info(line)
    whole = Folded("", line, *messages, *content, classes=list(classes))
    directive.set_source_info(whole)
    return whole


class FoldedDirective(SphinxDirective):
    """Content behind its summary; a question has the class ``question``."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[OptionSpec] = {"class": directives.class_option}

    def run(self) -> list[nodes.Node]:
        """One element."""
        self.assert_has_content()
        classes = ["question"] if self.name == "question" else self.options.get("class", [])
        return [folded(self, self.arguments[0], self.parse_content_to_nodes(), *classes)]


def _open(writer: HTML5Translator, node: Folded) -> None:
    writer.body.append(writer.starttag(node, "details", CLASS="folded"))


def _close(writer: HTML5Translator, node: Folded) -> None:
    writer.body.append("</details>\n")


def _open_summary(writer: HTML5Translator, node: FoldedSummary) -> None:
    writer.body.append(writer.starttag(node, "summary", ""))


def _close_summary(writer: HTML5Translator, node: FoldedSummary) -> None:
    writer.body.append("</summary>\n")


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the elements and the directives."""
    app.add_node(Folded, html=(_open, _close))
    app.add_node(FoldedSummary, html=(_open_summary, _close_summary))
    app.add_directive("folded", FoldedDirective)
    app.add_directive("question", FoldedDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
