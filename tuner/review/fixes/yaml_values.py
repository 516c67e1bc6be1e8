"""Spells values as a YAML file spells its own: quotation marks, ``True`` or ``true``, JSON in JSON."""

import json
import re
from typing import Any

from tuner.inputs.tree import Tree
from tuner.inputs.yaml_written import on_one_line
from tuner.language import _
from tuner.review.fixes.edits import CannotEditError
from tuner.review.fixes.yaml_nodes import Node

_BOOLEAN = re.compile(r"true|false|True|False|TRUE|FALSE")
_IN_BLOCKS = ("|", ">")  # how a text of several lines begins


def expect_plain(node: Node, text: str) -> None:
    """Refuse a value that other places of the file share, or that more than its own characters decide.

    Raises:
        CannotEditError: it is an anchor's, an alias, tagged, an interpolation or a block of lines.
    """
    written = text[node.start : node.end].split("\n")[0]
    for inner in node.below():
        if inner.kind == "alias":
            raise CannotEditError(
                _("the value is the alias {written}").format(written=text[inner.start : inner.end])
            )
        if inner.anchor is not None:
            raise CannotEditError(_("the value has the anchor &{name}").format(name=inner.anchor))
        if inner.tagged:
            raise CannotEditError(_("the value has a tag: {written}").format(written=written))
        if "${" in inner.value:
            raise CannotEditError(_("the value follows another key: {written}").format(written=written))
        if inner.style in _IN_BLOCKS:
            raise CannotEditError(_("the value is a block of several lines"))
    if node.kind != "scalar" and (not node.flow or "#" in text[node.start : node.end]):
        raise CannotEditError(_("the value stands on several lines"))


def spelled(value: Any, text: str, *, old: Node | None, flow: bool, top: Node | None) -> str:
    """A value as it stands in a file.

    Args:
        value: what is to be read.
        text: the file.
        old: the value that it replaces.
        flow: whether it stands within brackets.
        top: the file's top node.
    """
    style = "" if old is None else old.style
    if top is not None and top.flow and text[top.start] == "{" and _in_json(top):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return _boolean(value, old, top)
    if isinstance(value, str) and value.isprintable() and style == "'":
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, str) and style == '"':
        return json.dumps(value, ensure_ascii=False)
    return on_one_line([value])[1:-1] if flow else on_one_line(value)


def lines_of(tree: Tree, *, indent: int, step: int, text: str, top: Node | None) -> list[str]:
    """New keys as lines of a block mapping, without their line breaks."""
    lines = []
    for key, value in tree.items():
        start = " " * indent + on_one_line(key) + ":"
        if isinstance(value, dict) and value:
            lines += [start, *lines_of(value, indent=indent + step, step=step, text=text, top=top)]
        else:
            lines.append(f"{start} {spelled(value, text, old=None, flow=False, top=top)}")
    return lines


def in_brackets(tree: Tree, text: str, top: Node | None) -> str:
    """New keys as they stand between the brackets of a flow mapping."""
    if top is not None and top.flow and _in_json(top):
        return json.dumps(tree, ensure_ascii=False)[1:-1]
    pairs = []
    for key, value in tree.items():
        nested = isinstance(value, dict) and bool(value)
        written = (
            f"{{{in_brackets(value, text, top)}}}"
            if nested
            else spelled(value, text, old=None, flow=True, top=top)
        )
        pairs.append(f"{on_one_line([key])[1:-1]}: {written}")
    return ", ".join(pairs)


def _in_json(top: Node) -> bool:
    """Whether a file is JSON: every key of its top stands in quotation marks."""
    return bool(top.entries) and all(key.style == '"' for key, _value in top.entries)


def _boolean(value: bool, old: Node | None, top: Node | None) -> str:
    """``True`` or ``true``, as the value before it, else as the first one of the file."""
    nodes = [old] if old is not None else []
    nodes += list(top.below()) if top is not None else []
    plain = (node.value for node in nodes if node.kind == "scalar" and not node.style)
    pattern = next((word for word in plain if _BOOLEAN.fullmatch(word)), "true")
    word = "true" if value else "false"
    if pattern.isupper():
        return word.upper()
    return word if pattern.islower() else word.capitalize()
