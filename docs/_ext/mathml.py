"""Formulas as MathML, written at build time: no script and no request to another host."""

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(latex2mathml.tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    mathml = latex2mathml.tex2mathml(node.astext(), as_block=True)
    writer.body.append(f'<div class="math-block">{mathml}</div>\n')
    raise nodes.SkipNode


class KeepFormulas(SphinxTransform):
    """Takes formulas out of what is translated, before messages are collected."""

    default_priority = 5

    def apply(self, **kwargs: object) -> None:
        """Mark every displayed formula."""
        for node in self.document.findall(nodes.math_block):
            node["translatable"] = False


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer that ``html_math_renderer`` names, and the transform."""
    app.add_transform(KeepFormulas)
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
