"""One JSON object on a line for every finding, each as in the report of ``-f json``."""

from collections.abc import Iterator

from tuner.render.checked.how import How
from tuner.render.checked.json import check_lines
from tuner.render.json_text import json_text
from tuner.review.checked import Review


def lines(review: Review, how: How) -> Iterator[str]:
    """One object per finding."""
    reported = {id(line) for line in review.lines}
    for line, found in check_lines(review):
        if id(line) in reported:
            yield json_text(found, indent=None)
