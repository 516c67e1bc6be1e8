"""A YAML text as its author wrote it: nodes with their characters, places of keys, spelling of values.

Composed nodes would not do: an alias is composed into the node of its anchor, with the anchor's place.
"""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import yaml
from msgspec import Struct

from tuner.inputs.tree import Path, Tree, dotted
from tuner.inputs.yaml_nodes import loader, on_one_line
from tuner.language import _
from tuner.review.fixes.edits import CannotEditError

MERGE = "<<"


class Node:
    """One node; ``start`` and ``end`` are characters of the text.

    A block mapping or list ends where its last value does, one in brackets behind its bracket.
    """

    __slots__ = ("anchor", "end", "entries", "flow", "items", "kind", "start", "style", "tagged", "value")

    def __init__(self, event: Any, kind: str) -> None:
        self.kind = kind  # "scalar", "map", "list" or "alias"
        self.start: int = event.start_mark.index
        self.end: int = event.end_mark.index
        self.anchor: str | None = event.anchor
        self.tagged = getattr(event, "tag", None) is not None
        self.flow = bool(getattr(event, "flow_style", False))
        self.style: str = getattr(event, "style", None) or ""  # how it begins: a quotation mark, |, >
        self.value: str = getattr(event, "value", "")
        self.entries: list[tuple[Node, Node]] = []
        self.items: list[Node] = []

    @property
    def empty(self) -> bool:
        """Whether nothing is written where the value would stand."""
        return self.kind == "scalar" and self.start == self.end

    @property
    def merges(self) -> bool:
        """Whether the mapping takes keys of another one."""
        return any(key.value == MERGE and not key.style for key, _value in self.entries)

    def entry(self, name: str) -> "tuple[Node, Node] | None":
        """The key and the value of that name."""
        return next(((key, value) for key, value in self.entries if key.value == name), None)

    def below(self) -> "Iterator[Node]":
        """The node and every node in it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [child for entry in node.entries for child in entry] + node.items


@lru_cache(maxsize=2)  # each fix of a file begins from the same
def nodes_of(text: str) -> Node | None:
    """The top node of YAML text; None where it holds nothing but comments.

    Raises:
        CannotEditError: it is not YAML.
    """
    try:
        events = yaml.parse(text, loader())
        waiting = [event for event in events if not isinstance(event, _FRAME)]
    except yaml.YAMLError:
        raise CannotEditError(_("it is not valid YAML")) from None
    return _top(waiting) if waiting else None


_FRAME = (
    yaml.events.StreamStartEvent,
    yaml.events.StreamEndEvent,
    yaml.events.DocumentStartEvent,
    yaml.events.DocumentEndEvent,
)


def _top(events: list[Any]) -> Node:
    """The first node of the events, without recursion: files may be nested deeply."""
    top: Node | None = None
    open_nodes: list[Node] = []
    keys: list[Node | None] = []  # of each open mapping, the key that waits for its value
    for event in events:
        if isinstance(event, yaml.events.CollectionEndEvent):
            node = open_nodes.pop()
            keys.pop()
            node.end = event.end_mark.index if node.flow and event.end_mark else _last_end(node)
            continue
        node = Node(event, _kind(event))
        if open_nodes:
            _put(open_nodes[-1], node, keys)
        top = top or node
        if node.kind in ("map", "list"):
            open_nodes.append(node)
            keys.append(None)
    assert top is not None
    return top


def _put(parent: Node, node: Node, keys: list[Node | None]) -> None:
    if parent.kind == "list":
        parent.items.append(node)
    elif keys[-1] is None:
        keys[-1] = node
    else:
        parent.entries.append((keys[-1], node))
        keys[-1] = None


def _kind(event: Any) -> str:
    if isinstance(event, yaml.events.AliasEvent):
        return "alias"
    if isinstance(event, yaml.events.MappingStartEvent):
        return "map"
    return "list" if isinstance(event, yaml.events.SequenceStartEvent) else "scalar"


def _last_end(node: Node) -> int:
    ends = [node.start, *(value.end for _key, value in node.entries), *(item.end for item in node.items)]
    return max(ends)


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


_BOOLEAN = re.compile(r"true|false|True|False|TRUE|FALSE")
_IN_BLOCKS = ("|", ">")  # how a text of several lines begins


def expect_plain(node: Node, text: str) -> None:
    """Refuse a value that other places of the file share, or that more than its own characters decide.

    Raises:
        CannotEditError: it is an anchor's, an alias, tagged, an interpolation or a block of lines.
    """
    written = text[node.start : node.end].split("\n")[0]
    for inner in node.below():
        if inner.kind == "alias":
            raise CannotEditError(
                _("the value is the alias {written}").format(written=text[inner.start : inner.end])
            )
        if inner.anchor is not None:
            raise CannotEditError(_("the value has the anchor &{name}").format(name=inner.anchor))
        if inner.tagged:
            raise CannotEditError(_("the value has a tag: {written}").format(written=written))
        if "${" in inner.value:
            raise CannotEditError(_("the value follows another key: {written}").format(written=written))
        if inner.style in _IN_BLOCKS:
            raise CannotEditError(_("the value is a block of several lines"))
    if node.kind != "scalar" and (not node.flow or "#" in text[node.start : node.end]):
        raise CannotEditError(_("the value stands on several lines"))


def yaml_value(value: Any, text: str, *, old: Node | None, flow: bool, top: Node | None) -> str:
    """A value as it stands in a file.

    Args:
        value: what is to be read.
        text: the file.
        old: the value that it replaces.
        flow: whether it stands within brackets.
        top: the file's top node.
    """
    style = "" if old is None else old.style
    if top is not None and top.flow and text[top.start] == "{" and _in_json(top):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return _boolean(value, old, top)
    if isinstance(value, str) and value.isprintable() and style == "'":
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, str) and style == '"':
        return json.dumps(value, ensure_ascii=False)
    return on_one_line([value])[1:-1] if flow else on_one_line(value)


def lines_of(tree: Tree, *, indent: int, step: int, text: str, top: Node | None) -> list[str]:
    """New keys as lines of a block mapping, without their line breaks."""
    lines = []
    for key, value in tree.items():
        start = " " * indent + on_one_line(key) + ":"
        if isinstance(value, dict) and value:
            lines += [start, *lines_of(value, indent=indent + step, step=step, text=text, top=top)]
        else:
            lines.append(f"{start} {yaml_value(value, text, old=None, flow=False, top=top)}")
    return lines


def in_brackets(tree: Tree, text: str, top: Node | None) -> str:
    """New keys as they stand between the brackets of a flow mapping."""
    if top is not None and top.flow and _in_json(top):
        return json.dumps(tree, ensure_ascii=False)[1:-1]
    pairs = []
    for key, value in tree.items():
        nested = isinstance(value, dict) and bool(value)
        written = (
            f"{{{in_brackets(value, text, top)}}}"
            if nested
            else yaml_value(value, text, old=None, flow=True, top=top)
        )
        pairs.append(f"{on_one_line([key])[1:-1]}: {written}")
    return ", ".join(pairs)


def _in_json(top: Node) -> bool:
    """Whether a file is JSON: every key of its top stands in quotation marks."""
    return bool(top.entries) and all(key.style == '"' for key, _value in top.entries)


def _boolean(value: bool, old: Node | None, top: Node | None) -> str:
    """``True`` or ``true``, as the value before it, else as the first one of the file."""
    nodes = [old] if old is not None else []
    nodes += list(top.below()) if top is not None else []
    plain = (node.value for node in nodes if node.kind == "scalar" and not node.style)
    pattern = next((word for word in plain if _BOOLEAN.fullmatch(word)), "true")
    word = "true" if value else "false"
    if pattern.isupper():
        return word.upper()
    return word if pattern.islower() else word.capitalize()
