"""Takes keys out of a YAML text, and with the last key of a section the section."""

from collections.abc import Iterator, Sequence

from tuner.language import _
from tuner.review.fixes.edits import CannotEditError, Splice
from tuner.review.fixes.yaml_nodes import Node
from tuner.review.fixes.yaml_places import MappingEntry


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
            yield _one(text, entry)


def _holds(entry: MappingEntry, start: int) -> bool:
    return entry.value.start <= start < entry.value.end


def _one(text: str, entry: MappingEntry) -> Splice:
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
