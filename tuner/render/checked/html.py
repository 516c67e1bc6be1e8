"""One HTML page: the findings of each input, and what each of its phases takes."""

from collections.abc import Iterator

from tuner.render.checked.context import RenderContext
from tuner.render.checked.input_document import input_document
from tuner.render.checked.markdown import head
from tuner.render.document.html import html_text
from tuner.render.document.parts import AnswerDocument
from tuner.render.html_page import html_page
from tuner.review.review import Review


def parts(review: Review, context: RenderContext) -> Iterator[str]:
    """The whole review, in one piece: a page closes what it opens."""
    documents = (AnswerDocument(sections=(tuple(head(review)),)), *map(input_document, review.inputs))
    yield html_page("tuner check", map(html_text, documents))
