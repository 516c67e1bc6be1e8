"""Edits of a YAML file: values replaced, keys added, removed and renamed, and the result read back."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tuner.errors import TunerError
from tuner.inputs.override_syntax import same
from tuner.inputs.tree import Path, Tree, dotted, leaves, merged, nested
from tuner.inputs.yaml_file import parse_yaml
from tuner.language import _
from tuner.review.fixes.edits import CannotEditError, KeyEdit, Splice, edits_of
from tuner.review.fixes.yaml_text import (
    MappingEntry,
    Node,
    expect_plain,
    in_brackets,
    lines_of,
    nodes_of,
    place_of,
    yaml_value,
)
from tuner.review.input_findings import Edit

_STEP = 2  # columns, where the file has no section that tells


def added_to(text: str, top: Node, entries: Sequence[MappingEntry], tree: Tree) -> Splice:
    """Keys added to the section that entries lead to; to the top of the file where there are none.

    Raises:
        CannotEditError: the section's brackets cannot take them.
    """
    section = entries[-1].value if entries else top
    if section.flow:
        return _in_brackets(text, top, section, tree)
    step = _step(text, top)
    if section.empty:  # "key:" and nothing behind it
        if entries[-1].mapping.flow:
            raise CannotEditError(_("the section is empty, in brackets"))
        indent = _column(text, entries[-1].key.start) + step
        at = _behind_line(text, section.end)
    else:
        indent = _column(text, section.entries[0][0].start)
        at = _behind_comments(text, _behind_line(text, section.end), indent)
    newline = line_break(text)
    lines = lines_of(tree, indent=indent, step=step, text=text, top=top)
    new = "".join(f"{line}{newline}" for line in lines)
    if at == len(text) and not text.endswith("\n"):
        new = newline + new.removesuffix(newline)
    return Splice(at, at, new)


def line_break(text: str) -> str:
    """How the lines of a text end: as the first one does."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _in_brackets(text: str, top: Node, section: Node, tree: Tree) -> Splice:
    new = in_brackets(tree, text, top)
    if not section.entries:
        return Splice(section.start + 1, section.start + 1, new)
    end = section.entries[-1][1].end
    rest = text[end : section.end - 1]
    if "," in rest or "#" in rest:
        raise CannotEditError(_("the section's last value is followed by a comma or a comment"))
    return Splice(end, end, f", {new}")


def _behind_line(text: str, at: int) -> int:
    """Where the next line begins; the place itself where a line begins there."""
    if at > 0 and text[at - 1] == "\n":
        return at
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _behind_comments(text: str, at: int, indent: int) -> int:
    """Behind the comments that follow and belong to a section by their column."""
    while at < len(text):
        end = _behind_line(text, at + 1)
        line = text[at:end]
        if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) < max(indent, 1):
            break
        at = end
    return at


def _column(text: str, at: int) -> int:
    return at - (text.rfind("\n", 0, at) + 1)


def _step(text: str, top: Node) -> int:
    """By how many columns the first section of a file stands farther to the right than its key."""
    for node in top.below():
        for key, value in node.entries:
            if value.kind == "map" and not value.flow and value.entries:
                step = _column(text, value.entries[0][0].start) - _column(text, key.start)
                if step > 0:
                    return step
    return _STEP


def removed(
    text: str, leaving: Sequence[tuple[MappingEntry, ...]], *, growing: Sequence[Node]
) -> Iterator[Splice]:
    """Splices without the entries, each given with those that lead to it.

    Args:
        text: the file.
        leaving: the ways to the entries.
        growing: mappings that get other keys, and so do not become empty.

    Raises:
        CannotEditError: something else stands on the lines of one, or is repeated elsewhere.
    """
    gone: dict[int, MappingEntry] = {}
    going: dict[int, int] = {}  # how many entries leave a mapping
    for way in leaving:
        for entry in reversed(way):
            if entry.key.start in gone:
                break
            gone[entry.key.start] = entry
            mapping = entry.mapping
            going[id(mapping)] = going.get(id(mapping), 0) + 1
            if going[id(mapping)] < len(mapping.entries) or any(mapping is node for node in growing):
                break
    for start, entry in gone.items():
        if not any(other is not entry and _holds(other, start) for other in gone.values()):
            yield _removal(text, entry)


def _holds(entry: MappingEntry, start: int) -> bool:
    return entry.value.start <= start < entry.value.end


def _removal(text: str, entry: MappingEntry) -> Splice:
    for node in entry.value.below():
        if node.kind == "alias" or node.anchor is not None:
            raise CannotEditError(_("the value has an anchor or is an alias"))
    if entry.mapping.flow:
        return _from_brackets(text, entry)
    start = text.rfind("\n", 0, entry.key.start) + 1
    if text[start : entry.key.start].strip(" "):
        raise CannotEditError(_("the key does not begin its line"))
    end = max(entry.value.end, entry.key.end)
    if text[end - 1] != "\n":
        line_end = text.find("\n", end)
        end = len(text) if line_end < 0 else line_end + 1
    return Splice(start, end, "")


def _from_brackets(text: str, entry: MappingEntry) -> Splice:
    keys = [key.start for key, _value in entry.mapping.entries]
    at = keys.index(entry.key.start)
    if len(keys) == 1:
        start, end = entry.key.start, entry.value.end
    elif at + 1 < len(keys):
        start, end = entry.key.start, keys[at + 1]
    else:
        start, end = entry.mapping.entries[at - 1][1].end, entry.value.end
    if "#" in text[start:end]:
        raise CannotEditError(_("a comment stands within the section's brackets"))
    return Splice(start, end, "")


def expect_yaml(before: bytes, after: bytes, changes: Sequence[KeyEdit]) -> None:
    """Refuse an edited file that is read otherwise than the old one with the changes.

    Raises:
        CannotEditError: it is.
    """
    expected = dict(_leaves(before))
    for change in changes:
        for path in [path for path in expected if path[: len(change.path)] == change.path]:
            del expected[path]
        for length in range(1, len(change.path)):  # what was empty has a key now
            if not change.deletes and expected.get(change.path[:length], "") in (None, {}):
                del expected[change.path[:length]]
        if not change.deletes:
            expected[change.path] = change.value
    actual = _leaves(after)
    if actual.keys() != expected.keys() or not all(same(actual[path], expected[path]) for path in expected):
        raise CannotEditError(_("the file would not be read as intended"))


@lru_cache(maxsize=2)  # each fix of a file begins from the same
def _leaves(data: bytes) -> dict[Path, Any]:
    try:
        tree = parse_yaml(data.decode("utf-8-sig"), source="").tree
    except (TunerError, UnicodeDecodeError):
        raise CannotEditError(_("the file would not be read as intended")) from None
    return {path: value for path, value in leaves(tree) if path}


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
    # A section may end where the one around it does: what is added to the inner one comes first there.
    for entries, tree in sorted(added.values(), key=lambda item: -len(item[0])):
        yield added_to(text, top, entries, tree)


def _value(text: str, top: Node, entry: MappingEntry, change: KeyEdit) -> Splice:
    """Another value in the place of the one that stands there."""
    old = entry.value
    expect_plain(old, text)
    if old.kind == "map":
        raise CannotEditError(_("the key is a section in this file"))
    flow = entry.mapping.flow
    new = yaml_value(change.value, text, old=old, flow=flow, top=top)
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
    name = yaml_value(coming[0].path[-1], text, old=entry.key, flow=entry.mapping.flow, top=top)
    yield Splice(entry.key.start, entry.key.end, name)
    yield _value(text, top, entry, coming[0])
