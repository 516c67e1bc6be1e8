"""Comments of ours in launch scripts, each with the lines of the command or word that it stands above."""

from collections.abc import Iterator

from tuner.errors import InputError, Location
from tuner.inputs.shell.source import Node, parse
from tuner.review.suppression.comments import MARK, Comment

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
