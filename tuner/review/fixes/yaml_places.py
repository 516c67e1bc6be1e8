"""Where a key stands in a YAML text, or the mapping that it would stand in."""

from msgspec import Struct

from tuner.inputs.tree import Path, dotted
from tuner.language import _
from tuner.review.fixes.edits import CannotEditError
from tuner.review.fixes.yaml_nodes import Node


class MappingEntry:
    """A key with its value, and the mapping that holds both."""

    __slots__ = ("key", "mapping", "value")

    def __init__(self, mapping: Node, key: Node, value: Node) -> None:
        self.mapping, self.key, self.value = mapping, key, value


class KeyPlace(Struct, frozen=True, kw_only=True):
    """The entries that lead to a key, as far as the file has them."""

    entries: tuple[MappingEntry, ...]
    missing: Path  # the rest of the path, which the file does not have


def place_of(top: Node, path: Path) -> KeyPlace:
    """The place of a key.

    Raises:
        CannotEditError: an anchor, an alias or a merged mapping stands on the way, or a value where a section
            is needed.
    """
    _expect_own(top, path, 0)
    entries: list[MappingEntry] = []
    mapping = top
    for depth, name in enumerate(path):
        entry = mapping.entry(name)
        if entry is None:
            if mapping.merges:
                raise CannotEditError(
                    _("{section} takes keys of another mapping by <<").format(section=_section(path, depth))
                )
            return KeyPlace(entries=tuple(entries), missing=path[depth:])
        entries.append(MappingEntry(mapping, *entry))
        mapping = entry[1]
        if depth + 1 < len(path):
            if mapping.empty:
                return KeyPlace(entries=tuple(entries), missing=path[depth + 1 :])
            _expect_own(mapping, path, depth + 1)
    return KeyPlace(entries=tuple(entries), missing=())


def _expect_own(node: Node, path: Path, depth: int) -> None:
    """Refuse a section that is not written in this place alone."""
    section = _section(path, depth)
    if node.kind == "alias":
        raise CannotEditError(
            _("{section} is the alias *{name}").format(section=section, name=node.anchor or "")
        )
    if node.anchor is not None:
        raise CannotEditError(_("{section} has the anchor &{name}").format(section=section, name=node.anchor))
    if node.kind != "map" or node.tagged:
        raise CannotEditError(_("{section} is no section in this file").format(section=section))


def _section(path: Path, depth: int) -> str:
    return dotted(path[:depth]) if depth else _("the top of the file")
