"""The comments of ours in a file, in YAML or in a launch script, each with the lines that it speaks of."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import yaml

from tuner.errors import InputError, Location
from tuner.files import STANDARD_INPUT, is_there
from tuner.inputs.named_inputs import is_shell
from tuner.inputs.shell.source import Node, parse
from tuner.inputs.yaml_file import read_text
from tuner.inputs.yaml_nodes import loader
from tuner.review.suppression.comments import MARK, Comment, Suppression, suppressions

_COMMENT = "comment"


def comments_in_script(text: str, *, source: str) -> Iterator[Comment]:
    """The comments, in their order.

    One alone on its line speaks of all of what stands below: a command with its continued lines, an
    assignment, a word of an array. A comment between continued lines would end the command.
    """
    if MARK.search(text) is None:
        return
    try:
        content = parse(source, text.encode())
    except InputError:
        return
    lines = text.split("\n")
    for node in _comments(content.root):
        row, column = node.start_point
        line = row + 1
        first = last = line
        if not lines[row].encode()[:column].strip():
            below = _below(node)
            first, last = (line + 1, line) if below is None else (below.start_point[0] + 1, _end(below))
        yield Comment(
            text=content.of(node),
            place=Location(source=source, line=line, column=column + 1),
            first=first,
            last=last,
        )


def _comments(root: Node) -> Iterator[Node]:
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type == _COMMENT:
            yield node
        pending += reversed(node.children)


def _below(node: Node) -> Node | None:
    following = node.next_named_sibling
    while following is not None and following.type == _COMMENT:
        following = following.next_named_sibling
    return following


def _end(node: Node) -> int:
    """The last line of a node, 1-based; one that ends at the beginning of a line ends on the line before."""
    row, column = node.end_point
    return int(row + (1 if column else 0))


def comments_in_yaml(text: str, *, source: str) -> Iterator[Comment]:
    """The comments, in their order.

    Args:
        text: one YAML document; of one that is none there are no comments.
        source: names it in locations.
    """
    if MARK.search(text) is None:
        return
    try:
        scalars, ends = _scalars(text), _extents(text)
    except yaml.YAMLError:
        return
    starts = sorted(ends)
    for mark in MARK.finditer(text):
        at = mark.start()
        begin = text.rfind("\n", 0, at) + 1
        if (at > begin and not text[at - 1].isspace()) or _within(at, scalars):
            continue
        line = text.count("\n", 0, at) + 1
        first = last = line
        if not text[begin:at].strip():
            below = bisect_right(starts, line)
            first, last = (starts[below], ends[starts[below]]) if below < len(starts) else (line + 1, line)
        yield Comment(
            text=text[at:].partition("\n")[0],
            place=Location(source=source, line=line, column=at - begin + 1),
            first=first,
            last=last,
        )


def _within(at: int, spans: list[tuple[int, int]]) -> bool:
    position = bisect_right(spans, (at, len(spans) + at)) - 1
    return position >= 0 and spans[position][0] <= at < spans[position][1]


def _scalars(text: str) -> list[tuple[int, int]]:
    """Where each value begins and ends: what looks like a comment in it is none."""
    return [
        (token.start_mark.index, token.end_mark.index)
        for token in yaml.scan(text, loader())
        if isinstance(token, yaml.ScalarToken)
    ]


def _extents(text: str) -> dict[int, int]:
    """The last line of what begins on a line: a key with all of its value, or an element of a list."""
    ends: dict[int, int] = {}
    lines: set[int] = set()
    pending = [yaml.compose(text, loader())]
    while pending:
        node = pending.pop()
        if id(node) in lines:
            continue
        lines.add(id(node))
        if isinstance(node, yaml.MappingNode):
            parts = [(key, value) for key, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            parts = [(element, element) for element in node.value]
        else:
            continue
        for start, value in parts:
            line = start.start_mark.line + 1
            # An alias is composed as the node that it repeats, which ends above.
            last = _last_line(value) if value.start_mark.line + 1 >= line else line
            ends[line] = max(ends.get(line, line), last)
            pending.append(value)
    return ends


def _last_line(node: yaml.Node) -> int:
    """The last line of a node that has something of it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    end = node.end_mark
    # Text in a block ends where the next line begins.
    return int(end.line + (0 if end.column == 0 and end.line > node.start_mark.line else 1))


def comments_of(texts: dict[str, str]) -> Callable[[str], tuple[Suppression, ...]]:
    """A function that gives the comments of a file, each file read once.

    Args:
        texts: what was read already and cannot be read again, as standard input, by the names of sources.
    """

    @cache
    def comments(source: str) -> tuple[Suppression, ...]:
        text = texts.get(source)
        if text is None:
            text = _text(source)
        if text is None:
            return ()
        if is_shell(source, text):
            return suppressions(comments_in_script(text, source=source))
        return suppressions(comments_in_yaml(text, source=source))

    return comments


def _text(source: str) -> str | None:
    """The text of a file; None of what is none, or is too large for a configuration."""
    if source == STANDARD_INPUT or not is_there(source, Path.is_file):
        return None
    try:
        return read_text(Path(source))
    except InputError:  # a log, which holds no comments
        return None
