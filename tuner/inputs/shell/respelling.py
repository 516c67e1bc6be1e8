"""Spells what the grammar of tree-sitter takes for something else the way that it understands."""

import re
from collections.abc import Iterator

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


def respelled(content: bytes) -> tuple[bytes, tuple[int, ...]]:
    """A script as the grammar understands it, and the places of the bytes in it that were put in."""
    if b"${" not in content:
        return content, ()
    pieces: list[bytes] = []
    inserted: list[int] = []
    at = 0
    for number, (place, byte) in enumerate(sorted((*_around_sums(content), *_around_offsets(content)))):
        pieces += [content[at:place], byte]
        inserted.append(place + number)
        at = place
    return b"".join([*pieces, content[at:]]), tuple(inserted)


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
