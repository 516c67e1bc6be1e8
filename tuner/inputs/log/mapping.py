"""A mapping that a program printed with ``pprint``: a Python literal over many lines, read as data.

Nothing of it is evaluated. A string that was broken over lines stands in several pieces, and enumerations or
other objects print themselves as no literal at all: these are kept as the text that was printed.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from tuner.errors import Location
from tuner.inputs.convert import has_too_large
from tuner.inputs.log.lines import LONGEST, LogLine
from tuner.inputs.secrets import taken_text, taken_value
from tuner.inputs.tree import Path, Tree
from tuner.out_of_memory.printed_lines import cleaned

_MOST_LINES = 4000
_MOST_CHARACTERS = 512 * 1024
_MOST_DEPTH = 32
_ASTRAY = 200  # lines in a row that are none of the mapping's
# The next line's process, where the break between two lines was lost, and what Ray says of repeated ones.
_GLUED = re.compile(
    r"(?:\([\w.<>: -]{0,80}pid=\d{1,10}(?:, ip=[\w.:]{1,40})?\)|\[repeated \d+x across cluster\])$"
)
_STRING_OR_BRACKET = re.compile(r"""'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[][(){}]""")
_OPENING, _CLOSING, _QUOTES = "{[(", "}])", "'\""


class PrintedMapping(Struct, frozen=True, kw_only=True):
    """A mapping that was printed, and where each key of it stands."""

    tree: Tree
    locations: dict[Path, Location]
    line: int | None  # its first; None where the lines above it were not read
    lines: int  # of the text that it takes, others among its own included


def begins_mapping(text: str) -> bool:
    """Whether a line, without what stands in front of it, may begin a nested mapping."""
    return text.startswith("{'") and "': " in text


def read_mapping(lines: Sequence[LogLine], first: int, source: str) -> PrintedMapping | None:
    """The mapping that begins in a line; None where none ends within the limits.

    Args:
        lines: of the log.
        first: index of the line.
        source: names the log.
    """
    # What a process wrote to its other stream stands among the lines, too. Their indentation, which a
    # quotation may have changed, is looked at only where they make no mapping as they are.
    for indented in (False, True):
        mapping = _parsed(lines, _own_lines(lines, first, indented=indented), source)
        if mapping is not None:
            return mapping
    return None


def _parsed(
    lines: Sequence[LogLine], own: Sequence[tuple[int, str]] | None, source: str
) -> PrintedMapping | None:
    if not own:
        return None
    first = own[0][0]
    # Python takes a carriage return, which a progress bar leaves, for the end of a line.
    written = [part.replace("\r", " ") for _index, part in own]
    try:
        body = ast.parse("\n".join(written), mode="eval").body
        if not isinstance(body, ast.Dict):
            return None
        places = _Places(lines, [index for index, _part in own], source)
        builder = _Builder(written, places)
        tree = builder.value(body, ())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, dict):
        return None
    return PrintedMapping(
        tree=taken_value("", tree),
        locations=builder.locations,
        line=lines[first].number,
        lines=own[-1][0] - first + 1,
    )


def _own_lines(lines: Sequence[LogLine], first: int, *, indented: bool) -> list[tuple[int, str]] | None:
    """The lines of the mapping, by index, without what stands in front of them; None where it has no end.

    Args:
        lines: of the log.
        first: index of the first.
        indented: leave out those that do not begin where ``pprint`` goes on.
    """
    begun = cleaned(lines[first].text, longest=LONGEST)
    own: list[tuple[int, str]] = []
    opened: list[int] = []  # columns of the brackets that are open
    astray = characters = 0
    for index in range(first, min(len(lines), first + _MOST_LINES)):
        line = cleaned(lines[index].text, longest=LONGEST)
        # Between two lines of a process there may be those of others, and of libraries without a prefix.
        mine = line.source == begun.source and (index == first or bool(begun.source) or line.text[:1] == " ")
        if mine and indented and own:
            mine = _goes_on(line.text, own[-1][1], opened)
        if not mine or not line.text.strip():
            astray += 1
            if astray > _ASTRAY:
                return None
            continue
        astray = 0
        text = _GLUED.sub("", line.text.rstrip())
        _open(text, opened)
        characters += len(text)
        if len(opened) > _MOST_DEPTH or characters > _MOST_CHARACTERS:
            return None
        own.append((index, text))
        if not opened:
            return own
    return None


def _goes_on(text: str, before: str, opened: Sequence[int]) -> bool:
    """Whether a line begins below the first thing in the innermost bracket, or goes on with a long string."""
    column = len(text) - len(text.lstrip(" "))
    if column == opened[-1] + 1:
        return True
    return text[column : column + 1] in _QUOTES and before[-1:] in _QUOTES and column > opened[-1]


def _open(text: str, opened: list[int]) -> None:
    """Follow the brackets of a line; a string never goes on in the next line."""
    for token in _STRING_OR_BRACKET.finditer(text):
        if token[0] in _OPENING:
            opened.append(token.start())
        elif token[0] in _CLOSING and opened:
            opened.pop()


class _Places:
    """Where the nodes of the literal stand in the log."""

    def __init__(self, lines: Sequence[LogLine], own: Sequence[int], source: str) -> None:
        self._lines, self._own, self._source = lines, own, source

    def of(self, node: ast.AST) -> Location:
        line = self._lines[self._own[getattr(node, "lineno", 1) - 1]]
        return Location(source=self._source, line=line.number)


class _Builder:
    """Makes a tree of the nodes of a literal that stands in these lines."""

    def __init__(self, lines: Sequence[str], places: _Places) -> None:
        self._lines, self._places = [line.encode() for line in lines], places  # columns count bytes
        self.locations: dict[Path, Location] = {}

    def value(self, node: ast.expr, path: Path) -> Any:
        if isinstance(node, ast.Dict):
            return dict(self._pairs(node, path))
        if isinstance(node, ast.List | ast.Tuple | ast.Set):
            return [self.value(child, (*path, str(number))) for number, child in enumerate(node.elts)]
        return self._plain(node)

    def _pairs(self, node: ast.Dict, path: Path) -> Iterator[tuple[str, Any]]:
        for key, child in zip(node.keys, node.values, strict=True):
            name = taken_text(str(self._plain(key))) if key is not None else ""
            here = (*path, name)
            self.locations[here] = self._places.of(child if key is None else key)
            yield name, self.value(child, here)

    def _plain(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and not has_too_large(node.value):
            value = node.value
            return value if isinstance(value, str | int | float | bool | None) else str(value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = self._plain(node.operand)
            if isinstance(operand, int | float):
                return -operand
        if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
            return float(node.id)
        return self._written(node)

    def _written(self, node: ast.expr) -> str:
        """A node as it was printed; ``ast.get_source_segment`` goes through the whole text for each."""
        first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
        parts = self._lines[first : last + 1]
        parts[-1] = parts[-1][: node.end_col_offset]
        parts[0] = parts[0][node.col_offset :]
        return b"\n".join(parts).decode()
