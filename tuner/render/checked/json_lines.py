"""One JSON object on a line for every finding, each as in the report of ``-f json``."""

from tuner.render.checked.how import How
from tuner.render.checked.json import check_lines
from tuner.render.json_text import json_text
from tuner.review.checked import Review


def rendered(review: Review, how: How) -> str:
    """One line per finding; empty where there is none."""
    reported = {id(line) for line in review.lines}
    return "\n".join(
        json_text(found, indent=None) for line, found in check_lines(review) if id(line) in reported
    )
