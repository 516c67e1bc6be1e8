"""The nodes of a YAML text with the characters that each takes, its anchor, and aliases as such.

Composed nodes would not do: an alias is composed into the node of its anchor, with the anchor's place.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import yaml

from tuner.inputs.yaml_nodes import loader
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
