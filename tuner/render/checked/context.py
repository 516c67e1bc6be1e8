"""What every format of ``tuner check`` is rendered with."""

from collections.abc import Iterable, Iterator
from importlib import import_module

from msgspec import Struct

from tuner.render.terminal import Terminal
from tuner.review.review import Review


class RenderContext(Struct, frozen=True, kw_only=True):
    """What a format knows beside the review."""

    terminal: Terminal  # where it is written


_PIECE = 1 << 16  # characters that are written at once: no more of thousands of inputs are held as text


def rendered(name: str, review: Review, context: RenderContext) -> str:
    """The review in one format; empty where the format has nothing to say of a review without findings."""
    return "".join(pieces(name, review, context)).removesuffix("\n")


def pieces(name: str, review: Review, context: RenderContext) -> Iterator[str]:
    """The review in one format, as it is written: each piece ends with a line.

    A format is a module of this package with a function ``lines``, where each line stands for itself, or with
    one named ``parts``, which together are the text. Both read one input after another.
    """
    module = import_module(f"tuner.render.checked.{name.replace('-', '_')}")
    if hasattr(module, "lines"):
        yield from _joined(f"{line}\n" for line in module.lines(review, context))
    else:
        yield from _joined(module.parts(review, context))


def separated(paragraphs: Iterable[str]) -> Iterator[str]:
    """Paragraphs with an empty line before all but the first."""
    for number, paragraph in enumerate(paragraphs):
        yield f"\n\n{paragraph}" if number else paragraph


def _joined(parts: Iterable[str]) -> Iterator[str]:
    held: list[str] = []
    size = 0
    for part in parts:
        held.append(part)
        size += len(part)
        if size >= _PIECE:
            whole, newline, rest = "".join(held).rpartition("\n")
            if newline:
                yield whole + newline
            held, size = [rest], len(rest)
    text = "".join(held)
    if text:
        yield text if text.endswith("\n") else f"{text}\n"
