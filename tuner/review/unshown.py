"""Which lines of an input hold a value that may be a secret, so that they are not repeated."""

from collections.abc import Iterator
from typing import Any

from tuner.inputs.secrets import HIDDEN
from tuner.inputs.settings import Settings
from tuner.inputs.tree import Path, dotted
from tuner.inputs.user_input import UserInput
from tuner.inputs.yaml_file import Document


def unshown_lines(given: UserInput, settings: Settings) -> frozenset[int]:
    """The lines of the input's own file, from 1, with a value of which nobody knows that it is no secret."""
    lines: set[int] = set()
    if given.document is not None and given.document.source == given.source:
        lines.update(_of_document(given.document, settings))
    for argument in given.arguments:
        place, text = argument.location, argument.text
        if place.source != given.source or place.line is None:
            continue
        if HIDDEN in text or settings.shown_override(text) != text:
            lines.update(range(place.line, place.line + text.count("\n") + 1))
    return frozenset(lines)


def _of_document(document: Document, settings: Settings) -> Iterator[int]:
    hidden = [
        place.line
        for path, value in _scalars(document.tree, ())
        if (place := document.locations.get(path)) is not None
        and place.line is not None
        and isinstance(value, str)
        and (HIDDEN in value or settings.shown(dotted(path), value) != value)
    ]
    if not hidden:
        return
    begun = sorted({place.line for place in document.locations.values() if place.line is not None})
    for line in hidden:  # a text may go on until the next key
        behind = next((other for other in begun if other > line), line + 1)
        yield from range(line, behind)


def _scalars(node: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(node, dict):
        for key, child in node.items():
            yield from _scalars(child, (*path, key))
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from _scalars(child, (*path, str(index)))
    else:
        yield path, node
