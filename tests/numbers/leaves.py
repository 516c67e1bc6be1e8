"""The numbers and names of a JSON report, as lines of text that can be compared; words are left out."""

from collections.abc import Collection, Iterator
from typing import Any

WORDS = {
    "message",
    "notes",
    "location",
    "project_settings",
    "settings",
    "reason",
    "hint",
    "source",
    "what",
    "made_by",
}


def leaves(value: object, path: str = "") -> Iterator[str]:
    """Numbers and names with the way to them; floats to six digits."""
    if isinstance(value, dict):
        for name, child in value.items():
            if name not in WORDS:
                yield from leaves(child, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for child in value:
            yield from leaves(child, path)
    else:
        yield f"{path}={value:.6g}" if isinstance(value, float) else f"{path}={value}"


def lines(report: dict[str, Any], *, left_out: Collection[str] = ()) -> Iterator[str]:
    """A line for each part of a report, and of a list in it for each element: leaves by their last names."""
    for name, value in report.items():
        if name not in left_out:
            yield from _lines(name, value)


def _lines(name: str, value: object) -> Iterator[str]:
    if isinstance(value, list):
        for element in value:
            yield from _lines(name, element)
    elif isinstance(value, dict):
        parts = {
            key: child for key, child in value.items() if isinstance(child, list) and _holds_dicts(child)
        }
        rest = {key: child for key, child in value.items() if key not in parts}
        yield f"{name}: " + " ".join(map(_last_name, leaves(rest)))
        for key, child in parts.items():
            yield from _lines(f"{name}.{key}", child)
    else:
        yield from leaves(value, name)


def _last_name(leaf: str) -> str:
    path, _, value = leaf.partition("=")
    return f"{path.rpartition('.')[2]}={value}"


def _holds_dicts(values: list[object]) -> bool:
    return any(isinstance(value, dict) for value in values)
