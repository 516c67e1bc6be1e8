"""``--output-format FORMAT[:FILE]`` of ``tuner check``: one review in several formats, each to its place."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tuner.cli import options
from tuner.cli.completion import beginning
from tuner.errors import InputError
from tuner.language import _

if TYPE_CHECKING:
    from tuner.review.review import Review

# Written out for a quick start; a test holds it to the modules that there are.
FORMATS = (
    "text",
    "full",
    "concise",
    "grouped",
    "json",
    "json-lines",
    "sarif",
    "github",
    "gitlab",
    "junit",
    "markdown",
    "html",
)


MARKED = ("text", "full", "concise", "grouped")  # mark what ``--fix`` fixes


def formats(incomplete: str) -> list[str]:
    """Formats whose name begins so."""
    return beginning(FORMATS, incomplete)


OutputFormats = Annotated[
    list[str] | None,
    typer.Option(
        "--output-format",
        "-f",
        metavar="FORMAT[:FILE]",
        help=_(
            "{formats}; with a file behind it, as in sarif:out.sarif, it is written there. May be repeated. "
            "text unless another one is named."
        ).format(formats=", ".join(FORMATS)),
        show_default=False,
        autocompletion=formats,
    ),
]


def targets(given: Sequence[str] | None) -> tuple[tuple[str, Path | None], ...]:
    """Each format that is asked for, and the file that it goes into; None for standard output.

    Raises:
        InputError: there is no such format, or two go to one place.
    """
    if not given:
        return (("text", None),)
    outputs = tuple(map(_target, given))
    places = [place for _format, place in outputs]
    for place in places:
        if places.count(place) > 1:
            where = _("standard output") if place is None else str(place)
            raise InputError(
                _("--output-format: two formats for {where}").format(where=where),
                hint=_("give one of them a file: sarif:out.sarif"),
            )
    return outputs


def _target(text: str) -> tuple[str, Path | None]:
    name, colon, file = text.partition(":")
    if name not in FORMATS:
        from difflib import get_close_matches

        near = get_close_matches(name, FORMATS, 1)
        raise InputError(
            _("--output-format {given}: there is no such format").format(given=text),
            hint=_("did you mean {near}?").format(near=near[0])
            if near
            else _("one of {formats}").format(formats=", ".join(FORMATS)),
        )
    if colon and not file:
        raise InputError(
            _("--output-format {given}: no file is named behind the colon").format(given=text),
            hint=_("leave the colon out for standard output"),
        )
    return name, Path(file) if colon else None


def write_formats(
    review: "Review", outputs: Sequence[tuple[str, Path | None]], *, color: options.ColourName
) -> None:
    """Write each format to its place.

    Raises:
        InputError: a file cannot be written.
    """
    from tuner.inputs.secrets import HIDDEN
    from tuner.inputs.secrets.shapes import without_shapes
    from tuner.render.checked.context import RenderContext, pieces
    from tuner.render.terminal import Terminal, write
    from tuner.writing import write_output

    for name, file in outputs:
        if file is not None:
            texts = pieces(name, review, RenderContext(terminal=Terminal()))
            write_output(file, (without_shapes(text, HIDDEN) for text in texts))
            continue
        for text in pieces(name, review, RenderContext(terminal=Terminal.of(sys.stdout, color))):
            write(sys.stdout, text)
