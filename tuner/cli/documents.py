"""Writes documents to standard output in the form that was asked for."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from tuner.render.document.parts import AnswerDocument
    from tuner.render.terminal import ColourChoice


def write_documents(
    documents: "Iterable[AnswerDocument]",
    form: Literal["text", "markdown", "html"],
    color: "ColourChoice",
    *,
    title: str = "tuner",
) -> None:
    """Write documents one below the other; in HTML as one page of a title."""
    from tuner.render.terminal import Terminal, write

    if form == "markdown":
        from tuner.render.document.markdown import markdown

        write(sys.stdout, "\n".join(map(markdown, documents)))
    elif form == "html":
        from tuner.render.document.html import html_text
        from tuner.render.html_page import html_page

        write(sys.stdout, html_page(title, map(html_text, documents)))
    else:
        from tuner.render.document.terminal import terminal_text

        terminal = Terminal.of(sys.stdout, color)
        write(sys.stdout, "\n".join(terminal_text(document, terminal) for document in documents))
