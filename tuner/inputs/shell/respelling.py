"""Spells what the grammar of tree-sitter takes for something else the way that it understands."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

_PARAMETER = rb"\$\{(?:\w+|[@*])(?:\[[^]\n]*\])?"
# "${a:-$(((b + 1) * 2))}", where the grammar sees a command substitution; inside quotes it does not.
_SUM_AS_DEFAULT = re.compile(_PARAMETER + rb":?[-=+][^}'\"\n$]*(\$\(\()")
_LONGEST_SUM = 400  # bytes
_PARENTHESIS = re.compile(rb"[()]")
# "${a:$b}" and "${a: -b}", where it sees an end: "${a:${b}}" and "${a: (-b)}" are the same.
_OFFSET = rb":\s?(?:\$\w+|[\w ()+*-]+)"
_SLICE = re.compile(_PARAMETER + rb"((?:" + _OFFSET + rb"){1,2})\}")
_NAME = re.compile(rb"\$([A-Za-z_]\w*)")
_SIGNED = re.compile(rb":\s(-[A-Za-z_]\w*)(?=[:}])")
# "a=1\\" ends a line and "2>&1" begins the next: it sees a word 2, unless a space is before the backslash.
_DESCRIPTOR = re.compile(rb"[^\s\\](?=\\\n[ \t]+\d>)")
# Behind "a | b | c", where a later pipeline redirects ("d 2>&1 | e"), the grammar takes all in between for
# words of c; with a semicolon behind c it does not.
# "DATA=<path> # yours": a placeholder, where bash sees a redirection without a file and stops, as it does
# at "DATA=${DATA?<path>}" as long as nobody gives DATA.
PLACEHOLDER = re.compile(
    rb"^[ \t]*(?:export[ \t]+)?(([A-Za-z_]\w*)=(<[^<>'\"`$&|;(){}\n]+>))(?=[ \t]*(?:[ \t]#.*)?$)",
    re.MULTILINE,
)
_END_OF_LINE = re.compile(rb"(?<!\\)\n")
# "a \\", "`# of a` \\", "b": the grammar reads the comment on to the end of the line, past what closes it.
_COMMENT_AS_WORD = re.compile(rb"(?<![^\s\"])`#[^`\n]*`")
_ASCII = re.compile(rb"[\x00-\x7f]")


def respelled(content: bytes) -> tuple[bytes, tuple[int, ...]]:
    """A script as the grammar understands it, and the places of the bytes in it that were put in."""
    content = _COMMENT_AS_WORD.sub(_does_nothing, content)
    places = [(match.end(), b" ") for match in _DESCRIPTOR.finditer(content)]
    for match in PLACEHOLDER.finditer(content):
        places += [(match.start(3), bytes((byte,))) for byte in b"${%s?" % match[2]]
        places.append((match.end(3), b"}"))
    if b"${" in content:
        places += (*_around_sums(content), *_around_offsets(content))
    pieces: list[bytes] = []
    inserted: list[int] = []
    at = 0
    for number, (place, byte) in enumerate(sorted(places, key=itemgetter(0))):
        pieces += [content[at:place], byte]
        inserted.append(place + number)
        at = place
    return b"".join([*pieces, content[at:]]), tuple(inserted)


def _does_nothing(comment: re.Match[bytes]) -> bytes:
    """A command of the same length that prints nothing: "`:     `"."""
    return b"`:" + _ASCII.sub(b" ", comment[0][2:-1]) + b"`"


def _around_sums(content: bytes) -> Iterator[tuple[int, bytes]]:
    for match in _SUM_AS_DEFAULT.finditer(content):
        start, depth = match.start(1), 0
        for parenthesis in _PARENTHESIS.finditer(content, start, start + _LONGEST_SUM):
            depth += 1 if parenthesis[0] == b"(" else -1
            if not depth:
                yield from ((start, b'"'), (parenthesis.end(), b'"'))
                break


def _around_offsets(content: bytes) -> Iterator[tuple[int, bytes]]:
    for match in _SLICE.finditer(content):
        start, end = match.span(1)
        for name in _NAME.finditer(content, start, end):
            yield from ((name.start(1), b"{"), (name.end(), b"}"))
        for signed in _SIGNED.finditer(content, start, end + 1):
            yield from ((signed.start(1), b"("), (signed.end(1), b")"))


def lines_run_together(node: Any, content: bytes) -> Iterator[int]:
    """The ends of lines behind which the grammar went on with a command that ends there."""
    if node.start_point.row == node.end_point.row:
        return
    children = node.children
    if node.type == "command":
        for before, after in pairwise(children):
            if _END_OF_LINE.search(content, before.end_byte, after.start_byte):
                yield before.end_byte
                return
    for child in children:
        yield from lines_run_together(child, content)


def with_ends(
    content: bytes, places: Sequence[int], inserted: Sequence[int]
) -> tuple[bytes, tuple[int, ...]]:
    """A script with a semicolon at some places, and the places of all bytes in it that were put in."""
    pieces = [content[start:end] for start, end in pairwise((0, *places, len(content)))]
    moved = (place + bisect_right(places, place) for place in inserted)
    added = (place + number for number, place in enumerate(places))
    return b";".join(pieces), tuple(sorted((*moved, *added)))
