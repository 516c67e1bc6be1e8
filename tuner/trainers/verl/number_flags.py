"""Numbers that a launch gives for what is on or off: verl tests no more than their truth.

A section that no class is made of has no types: OmegaConf takes any value for a key of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tuner.errors import Location
from tuner.inputs.overrides import Override
from tuner.inputs.tree import Path, contains, dotted, is_in_class, leaves, lookup, split_key
from tuner.inputs.user_input import Remark
from tuner.inputs.yaml_file import Document
from tuner.language import _


def number_flag_remarks(
    documents: Sequence[Document], overrides: Sequence[Override], defaults: Mapping[str, Any]
) -> tuple[Remark, ...]:
    """What is said of each of them: as what it is read.

    Args:
        documents: of the user, the lowest first.
        overrides: that are laid on them; of one key the last counts.
        defaults: on which both are laid.
    """
    text = _("{key}={value} counts as true: it is a number other than 0")
    numbers = {path: found for path, *found in _numbers(documents, overrides)}
    return tuple(
        Remark(text=text.format(key=dotted(path), value=value), location=place)
        for path, (value, place) in numbers.items()
        if value not in (0, 1) and _is_flag(defaults, path)
    )


def _numbers(
    documents: Sequence[Document], overrides: Sequence[Override]
) -> Iterator[tuple[Path, Any, Location]]:
    for document in documents:
        for path, value in leaves(document.tree):
            if isinstance(value, (int, float)):
                yield path, value, document.locations.get(path, Location(source=document.source))
    for override in overrides:
        if override.package is None and isinstance(override.value, (int, float)):
            yield split_key(override.key), override.value, override.location


def _is_flag(defaults: Mapping[str, Any], path: Path) -> bool:
    has = contains(defaults, path) and not is_in_class(defaults, path)
    return has and isinstance(lookup(defaults, path), bool)
