"""The words of a script that are written out: no variable, no substitution and no escape decides them."""

from collections.abc import Iterator

from tuner.inputs.shell.source import Node, Source

_LITERAL = frozenset({"word", "number"})
_SPECIAL = frozenset("\\$`*?~{}")
_OWN = frozenset({"command_name", "variable_assignment", "comment"})


class Word:
    """One word of a command, or one element of an array; ``start`` and ``end`` are bytes of the source."""

    __slots__ = ("end", "holder", "line", "start", "text", "written")

    def __init__(self, source: Source, nodes: list[Node], holder: Node) -> None:
        self.start: int = nodes[0].start_byte
        self.end: int = nodes[-1].end_byte
        self.line: tuple[int, int] = nodes[0].start_point
        self.holder = holder  # the command or the array
        self.written = source.between(self.start, self.end)
        parts = [_text(source, node) for node in nodes]
        known = [part for part in parts if part is not None]
        self.text = "".join(known) if len(known) == len(parts) else None  # as the command gets it

    @property
    def in_array(self) -> bool:
        """Whether it is an element of an array and no word of a command."""
        return bool(self.holder.type == "array")


def words_of(source: Source) -> list[Word]:
    """The words of all commands and arrays, in the order of the script."""
    words = [
        Word(source, nodes, holder)
        for holder in _holders(source.root)
        for nodes in _grouped(holder, [child for child in holder.children if _is_part(child)])
    ]
    return sorted(words, key=lambda word: word.start)


def _holders(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in ("command", "array"):
            yield node
        waiting += node.named_children


def _is_part(node: Node) -> bool:
    return node.is_named and node.type not in _OWN and "redirect" not in node.type


def _grouped(holder: Node, nodes: list[Node]) -> Iterator[list[Node]]:
    """Nodes without a blank between them are one word."""
    group: list[Node] = []
    for node in nodes:
        if group and group[-1].end_byte != node.start_byte:
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _text(source: Source, node: Node) -> str | None:
    """What a node stands for; None where only the shell would tell."""
    written = source.of(node)
    if node.type == "raw_string":
        return written[1:-1]
    if node.type == "string":
        inner = written[1:-1]
        return None if not written.startswith('"') or any(mark in inner for mark in '\\$`"') else inner
    if node.type == "concatenation":
        parts = [_text(source, child) for child in node.children]
        return None if None in parts else "".join(part for part in parts if part is not None)
    if node.type in _LITERAL and not _SPECIAL.intersection(written):
        return written
    return None
