"""Adds keys to a mapping of a YAML text, with the file's own indentation and line breaks."""

from collections.abc import Sequence

from tuner.inputs.tree import Tree
from tuner.language import _
from tuner.review.fixes.edits import CannotEditError, Splice
from tuner.review.fixes.yaml_nodes import Node
from tuner.review.fixes.yaml_places import MappingEntry
from tuner.review.fixes.yaml_values import in_brackets, lines_of

_STEP = 2  # columns, where the file has no section that tells


def added_to(text: str, top: Node, entries: Sequence[MappingEntry], tree: Tree) -> Splice:
    """Keys added to the section that entries lead to; to the top of the file where there are none.

    Raises:
        CannotEditError: the section's brackets cannot take them.
    """
    section = entries[-1].value if entries else top
    if section.flow:
        return _in_brackets(text, top, section, tree)
    step = _step(text, top)
    if section.empty:  # "key:" and nothing behind it
        if entries[-1].mapping.flow:
            raise CannotEditError(_("the section is empty, in brackets"))
        indent = _column(text, entries[-1].key.start) + step
        at = _behind_line(text, section.end)
    else:
        indent = _column(text, section.entries[0][0].start)
        at = _behind_comments(text, _behind_line(text, section.end), indent)
    newline = line_break(text)
    lines = lines_of(tree, indent=indent, step=step, text=text, top=top)
    new = "".join(f"{line}{newline}" for line in lines)
    if at == len(text) and not text.endswith("\n"):
        new = newline + new.removesuffix(newline)
    return Splice(at, at, new)


def line_break(text: str) -> str:
    """How the lines of a text end: as the first one does."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _in_brackets(text: str, top: Node, section: Node, tree: Tree) -> Splice:
    new = in_brackets(tree, text, top)
    if not section.entries:
        return Splice(section.start + 1, section.start + 1, new)
    end = section.entries[-1][1].end
    rest = text[end : section.end - 1]
    if "," in rest or "#" in rest:
        raise CannotEditError(_("the section's last value is followed by a comma or a comment"))
    return Splice(end, end, f", {new}")


def _behind_line(text: str, at: int) -> int:
    """Where the next line begins; the place itself where a line begins there."""
    if at > 0 and text[at - 1] == "\n":
        return at
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _behind_comments(text: str, at: int, indent: int) -> int:
    """Behind the comments that follow and belong to a section by their column."""
    while at < len(text):
        end = _behind_line(text, at + 1)
        line = text[at:end]
        if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) < max(indent, 1):
            break
        at = end
    return at


def _column(text: str, at: int) -> int:
    return at - (text.rfind("\n", 0, at) + 1)


def _step(text: str, top: Node) -> int:
    """By how many columns the first section of a file stands farther to the right than its key."""
    for node in top.below():
        for key, value in node.entries:
            if value.kind == "map" and not value.flow and value.entries:
                step = _column(text, value.entries[0][0].start) - _column(text, key.start)
                if step > 0:
                    return step
    return _STEP
