"""A loop, or another compound command, that a script opens and never closes: bash stops at the file's end.

The grammar also takes valid scripts for wrong ones. So what is missing has to make a whole script of it when
it is put behind the end, and the script must not even have the words often enough.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tuner.errors import InputError
from tuner.inputs.shell.source import Node, Source, parse

_CLOSED_BY = {"do": "done", "then": "fi", "case": "esac"}
_BEGIN = frozenset({"for", "while", "until", "select", "if", "case"})
_WORDS = re.compile(rb"(?<![\w.-])(?:done|fi|esac)(?![\w.-])")


class Unclosed(Struct, frozen=True, kw_only=True):
    """The first of the commands that have no end."""

    line: int  # in which it begins, from 1
    end: str  # the word that it lacks


def unclosed(source: Source) -> Unclosed | None:
    """The first compound command without an end; None where none is surely without."""
    if not source.root.has_error:
        return None
    parts = source.root.children
    wrong = [source.root] if source.root.is_error else [part for part in parts if part.is_error]
    opened = _left_open(wrong[0].children) if len(wrong) == 1 else _missing(source.root) if not wrong else []
    if not opened:
        return None
    closing = "\n".join(one.end for one in reversed(opened))
    try:
        whole = parse(source.file, source.content + f"\n{closing}\n".encode())
    except InputError:  # it takes too long
        return None
    return opened[0] if not whole.root.has_error and _are_too_few(source, whole) else None


def _left_open(nodes: Sequence[Node]) -> list[Unclosed]:
    """What of the words in a row is opened and not closed, the outermost first."""
    opened: list[Unclosed] = []
    begins: list[int] = []
    for node in nodes:
        line = node.start_point[0] + 1
        if node.type in _BEGIN:
            begins.append(line)
        if node.type in _CLOSED_BY:
            opened.append(Unclosed(line=begins[-1] if begins else line, end=_CLOSED_BY[node.type]))
        elif opened and node.type == opened[-1].end:
            opened.pop()
            begins = begins[:-1]
    return opened


def _missing(root: Node) -> list[Unclosed]:
    """What the grammar itself takes for closed by a word that is not there, the outermost first."""
    missing = [node for node in _tokens(root) if node.is_missing]
    if not all(node.type in _CLOSED_BY.values() for node in missing):
        return []
    opened = [Unclosed(line=_command(node).start_point[0] + 1, end=node.type) for node in missing]
    return sorted(opened, key=lambda one: one.line)


def _command(end: Node) -> Node:
    """The command that a word would close."""
    part = end.parent
    return part.parent if part.type == "do_group" else part


def _are_too_few(source: Source, whole: Source) -> bool:
    """Whether a script has fewer words that close, wherever they stand, than it has commands to be closed."""
    ends = [word.decode() for word in _WORDS.findall(source.content)]
    needed = [node.type for node in _tokens(whole.root) if node.type in _CLOSED_BY.values()]
    return any(ends.count(end) < needed.count(end) for end in set(needed))


def _tokens(root: Node) -> Iterator[Node]:
    """All nodes without others in them."""
    left = [root]
    while left:
        node = left.pop()
        if node.child_count == 0:
            yield node
        left.extend(node.children)
