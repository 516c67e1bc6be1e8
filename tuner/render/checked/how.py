"""What every format of ``tuner check`` is rendered with."""

from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from msgspec import Struct

from tuner.render.terminal import Terminal
from tuner.review.checked import Review


class How(Struct, frozen=True, kw_only=True):
    """What a format knows beside the review."""

    terminal: Terminal  # where it is written


_PIECE = 1 << 16  # characters: as many findings are written at once, and no more of them are held as text


def rendered(name: str, review: Review, how: How) -> str:
    """The review in one format; empty where the format has nothing to say of a review without findings."""
    return "".join(pieces(name, review, how)).removesuffix("\n")


def pieces(name: str, review: Review, how: How) -> Iterator[str]:
    """The review in one format, as it is written: each piece ends with a line.

    A format is a module of this package with a function ``rendered``, which gives all of the text, or with
    one named ``lines``, where each line stands for itself: of thousands of inputs only some are text at once.
    """
    module = import_module(f"tuner.render.checked.{name.replace('-', '_')}")
    if not hasattr(module, "lines"):
        text: str = module.rendered(review, how)
        if text:
            yield text if text.endswith("\n") else f"{text}\n"
        return
    yield from _joined(module, review, how)


def _joined(module: ModuleType, review: Review, how: How) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for line in module.lines(review, how):
        held.append(f"{line}\n")
        size += len(line)
        if size >= _PIECE:
            yield "".join(held)
            held, size = [], 0
    if held:
        yield "".join(held)
