"""The findings under the name of their input."""

from collections.abc import Iterator

from tuner.render.checked.context import RenderContext, separated
from tuner.render.checked.input_document import input_document
from tuner.render.document.terminal import section_texts
from tuner.review.review import Review


def parts(review: Review, context: RenderContext) -> Iterator[str]:
    """A paragraph for each input with findings; empty where there is none."""
    return separated(
        text
        for checked in review.inputs
        if checked.lines
        for text in section_texts(input_document(checked), context.terminal)
    )
