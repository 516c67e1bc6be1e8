"""Formulas as MathML, written at build time: no script and no request to another host."""

import re
from collections.abc import Sequence

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.addnodes import translatable
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.typing import ExtensionMetadata
from sphinx.writers.html5 import HTML5Translator

_TEXT = re.compile(r"\\text\{([^{}]*)\}")
_WORD = re.compile(r"\b[a-z]{2,}\b")


class Formula(nodes.math_block, translatable):  # type: ignore[misc]
    r"""A displayed formula: what stands in its ``\text{}`` is translated, the rest stays as it is."""

    def preserve_original_messages(self) -> None:
        """Keep the words; names such as ``MiB`` or ``(FSDP)`` are none."""
        texts = (text.strip() for text in _TEXT.findall(self.astext()))
        self["words"] = list(dict.fromkeys(text for text in texts if _WORD.search(text)))

    def apply_translated_message(self, original_message: str, translated_message: str) -> None:
        """Put a translation in the place of the words, spaces around them kept."""
        spaced = re.compile(rf"(\\text\{{\s*){re.escape(original_message)}(\s*\}})")
        changed = spaced.sub(lambda match: match[1] + translated_message + match[2], self.astext())
        self[:] = [nodes.Text(changed)]

    def extract_original_messages(self) -> Sequence[str]:
        """The words as they were written."""
        words: list[str] = self.get("words", [])
        return words


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(latex2mathml.tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    mathml = latex2mathml.tex2mathml(node.astext(), as_block=True)
    writer.body.append(f'<div class="math-block">{mathml}</div>\n')
    raise nodes.SkipNode


class TranslateWords(SphinxTransform):
    """Leaves only the words of a displayed formula to translation, before messages are collected."""

    default_priority = 5

    def apply(self, **kwargs: object) -> None:
        """Exchange every displayed formula for one whose words are messages."""
        for node in list(self.document.findall(nodes.math_block)):
            node.replace_self(Formula(node.rawsource, *node.children, **node.attributes))


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the renderer that ``html_math_renderer`` names, and the transform."""
    app.add_transform(TranslateWords)
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
