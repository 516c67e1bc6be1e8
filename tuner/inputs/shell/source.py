"""A script's bytes and its syntax tree."""

from bisect import bisect_left
from functools import cache, lru_cache
from time import process_time
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.inputs.shell.respelling import lines_run_together, respelled, with_ends
from tuner.language import _

Node = Any
"""A node of tree-sitter, whose own classes are only imported where a script is read."""

MOST_BYTES = 768 * 1024  # a launch script has some thousands

# Of processor time. Shell takes the parser 0.2 microseconds a byte, what is no shell at all 4, and behind a
# line that is none it takes the square of what follows: 15 s for 160 KB of loops.
MOST_PARSING_S = 0.8
_SHORT = 16 * 1024  # bytes; nothing as short is known to take the parser half of that
_ROUNDS = 8  # each parts what the grammar ran together where it first looked
_READ = 64 * 1024  # bytes at a time


class Source(Struct, frozen=True, kw_only=True):
    """One file, or a text that another file evaluates, with its syntax tree."""

    file: str
    content: bytes
    root: Node
    first: Location | None = None  # where the text stands in another file
    all_ascii: bool = False  # a byte is a character then, and no column takes a line to count
    inserted: tuple[int, ...] = ()  # bytes of the content that the file does not have

    def location(self, node: Node) -> Location:
        """Where a node begins, 1-based; columns count characters, where the grammar counts bytes."""
        if self.first is not None:
            return self.first
        line, bytes_before = node.start_point
        column = bytes_before
        if not self.all_ascii:
            column = len(self.between(node.start_byte - bytes_before, node.start_byte))
        if self.inserted:
            first = bisect_left(self.inserted, node.start_byte - bytes_before)
            column -= bisect_left(self.inserted, node.start_byte) - first
        return Location(source=self.file, line=line + 1, column=column + 1)

    def between(self, start: int, end: int) -> str:
        """The text from one byte to another."""
        return self.content[start:end].decode("utf-8", "replace")

    def of(self, node: Node) -> str:
        """The text of a node."""
        return self.between(node.start_byte, node.end_byte)

    def written(self, node: Node) -> str:
        """The text of a node as the file has it."""
        places = [place - node.start_byte for place in self.inserted if place >= node.start_byte]
        content = bytearray(self.content[node.start_byte : node.end_byte])
        for place in reversed(places):
            del content[place : place + 1]
        return content.decode("utf-8", "replace")


def parse_to_follow(file: str, content: bytes, *, first: Location | None = None) -> Source:
    """Parse a script that is to be followed: what the grammar would mistake is spelled otherwise.

    Raises:
        InputError: it is larger than a script can be, or so far from shell that the parser finds no end.
    """
    rewritten, inserted = respelled(content.replace(b"\r\n", b"\n"))
    source = parse(file, rewritten, first=first)
    for _round in range(_ROUNDS):
        places = tuple(lines_run_together(source.root, rewritten))
        if not places:
            break
        rewritten, inserted = with_ends(rewritten, places, inserted)
        source = parse(file, rewritten, first=first)
    return replace(source, inserted=inserted) if inserted else source


@lru_cache(maxsize=8)  # what a script does, its words and its comments are read one after the other
def parse(file: str, content: bytes, *, first: Location | None = None) -> Source:
    """Parse a script as the file has it.

    Raises:
        InputError: it is larger than a script can be, or so far from shell that the parser finds no end.
    """
    if len(content) > MOST_BYTES:
        raise InputError(
            _("{size:,} bytes are more than a launch script has").format(size=len(content)), location=first
        )
    # Scripts edited on Windows; the shell itself would stumble over the carriage returns.
    content = content.replace(b"\r\n", b"\n")
    try:
        root = _tree(content)
    except ValueError as error:
        raise InputError(
            _("it is no shell from some line on: {seconds:g} s were not enough to parse it").format(
                seconds=MOST_PARSING_S
            ),
            location=first or Location(source=file, line=1, column=1),
        ) from error
    return Source(file=file, content=content, root=root, first=first, all_ascii=content.isascii())


def _tree(content: bytes) -> Node:
    """The root of a text's syntax tree; ValueError where the parser does not come to an end."""
    import tree_sitter

    parser = tree_sitter.Parser(_bash())
    if len(content) <= _SHORT:
        return parser.parse(content).root_node
    end = process_time() + MOST_PARSING_S
    # Only what a callback reads can be left off, and tree-sitter 0.26 never frees what a callback gave.
    tree = parser.parse(
        lambda offset, _point: content[offset : offset + _READ],
        progress_callback=lambda _offset, _error: process_time() > end,
    )
    return tree.root_node


@cache
def _bash() -> Any:
    """The grammar."""
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())
