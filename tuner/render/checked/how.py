"""What every format of ``tuner check`` is rendered with."""

from importlib import import_module

from msgspec import Struct

from tuner.render.terminal import Terminal
from tuner.review.checked import Review


class How(Struct, frozen=True, kw_only=True):
    """What a format knows beside the review."""

    terminal: Terminal  # where it is written


def rendered(name: str, review: Review, how: How) -> str:
    """The review in one format, each of which is a module of this package with a function ``rendered``.

    Returns:
        The text; empty where the format has nothing to say of a review without findings.
    """
    module = import_module(f"tuner.render.checked.{name.replace('-', '_')}")
    text: str = module.rendered(review, how)
    return text
