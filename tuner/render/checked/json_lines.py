"""One JSON object on a line for every finding, each as in the report of ``-f json``."""

from collections.abc import Iterator

from tuner.render.checked.context import RenderContext
from tuner.render.checked.json import reported
from tuner.render.json_text import json_text
from tuner.review.review import Review


def lines(review: Review, context: RenderContext) -> Iterator[str]:
    """One object per finding."""
    return (json_text(line, indent=None) for line in reported(review))
