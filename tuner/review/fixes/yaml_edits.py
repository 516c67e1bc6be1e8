"""Edits of a YAML file: values replaced in place, keys added, removed and renamed."""

from collections.abc import Iterator, Sequence

from tuner.inputs.tree import Tree, dotted, merged, nested
from tuner.language import _
from tuner.review.checked import Edit
from tuner.review.fixes.changes import KeyEdit
from tuner.review.fixes.edits import CannotEditError, Splice, edits_of
from tuner.review.fixes.yaml_added import added_to
from tuner.review.fixes.yaml_nodes import Node, nodes_of
from tuner.review.fixes.yaml_places import MappingEntry, place_of
from tuner.review.fixes.yaml_removed import removed
from tuner.review.fixes.yaml_values import expect_plain, spelled


def yaml_edits(data: bytes, changes: Sequence[KeyEdit]) -> tuple[Edit, ...]:
    """The edits after which a YAML file has the values of the changes.

    Raises:
        CannotEditError: a value is shared, computed, or not written in the file's own lines.
    """
    text = data.decode("utf-8-sig")
    top = nodes_of(text)
    if top is None:
        raise CannotEditError(_("the file holds nothing"))
    splices = [*_renamed(text, top, changes)] or [*_changed(text, top, changes)]
    return edits_of(data, text, splices)


def _changed(text: str, top: Node, changes: Sequence[KeyEdit]) -> Iterator[Splice]:
    added: dict[tuple[int, int], tuple[list[MappingEntry], Tree]] = {}
    leaving: list[tuple[MappingEntry, ...]] = []
    for change in changes:
        place = place_of(top, change.path)
        if not place.missing:
            if change.deletes:
                leaving.append(place.entries)
            else:
                yield _value(text, top, place.entries[-1], change)
        elif change.deletes:  # nothing that stands in this file takes it out of another one
            raise CannotEditError(_("{key} is not written in this file").format(key=dotted(change.path)))
        else:
            section = place.entries[-1].value if place.entries else top
            key = (section.start, section.end)
            _entries, tree = added.get(key, (list(place.entries), {}))
            tree = merged(tree, nested(place.missing, change.value))
            added[key] = list(place.entries), tree
    growing = [entries[-1].value if entries else top for entries, _tree in added.values()]
    yield from removed(text, leaving, growing=growing)
    for entries, tree in added.values():
        yield added_to(text, top, entries, tree)


def _value(text: str, top: Node, entry: MappingEntry, change: KeyEdit) -> Splice:
    """Another value in the place of the one that stands there."""
    old = entry.value
    expect_plain(old, text)
    if old.kind == "map":
        raise CannotEditError(_("the key is a section in this file"))
    flow = entry.mapping.flow
    new = spelled(change.value, text, old=old, flow=flow, top=top)
    if old.empty and not text[old.start - 1].isspace():
        new = f" {new}"
    return Splice(old.start, old.end, new)


def _renamed(text: str, top: Node, changes: Sequence[KeyEdit]) -> Iterator[Splice]:
    """A key's other name in its own place, where one goes and one comes beside it."""
    leaving = [change for change in changes if change.deletes]
    coming = [change for change in changes if not change.deletes]
    if len(leaving) != 1 or len(coming) != 1 or leaving[0].path[:-1] != coming[0].path[:-1]:
        return
    old, new = place_of(top, leaving[0].path), place_of(top, coming[0].path)
    if old.missing or not new.missing:
        return
    entry = old.entries[-1]
    if entry.key.anchor is not None or entry.key.tagged or text[entry.key.start] == "?":
        raise CannotEditError(_("the key has an anchor or a tag"))
    name = spelled(coming[0].path[-1], text, old=entry.key, flow=entry.mapping.flow, top=top)
    yield Splice(entry.key.start, entry.key.end, name)
    yield _value(text, top, entry, coming[0])
