"""Attributes of a copy's trainer that a key which the launch adds makes true: ``self.use_base_models``.

Nothing is imported or run.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache

from tuner.trainers.verl.trainer_code.statements import parsed

_SELF, _START = "self", "__init__"
_READERS = ("get", "getattr")


def switched_attributes(text: str, owner: str, keys: Mapping[str, str]) -> dict[str, str]:
    """The attributes that are surely true, each with the key by which it is.

    Args:
        text: of the trainer's file.
        owner: the class of the trainer.
        keys: that the launch adds with a value that is true, by their last words.
    """
    known: dict[str, str] = {}
    for name, value in _assigned(text, owner):
        key = _truth(value, keys, known)
        if key:
            known[name] = key
        else:
            known.pop(name, None)
    return known


@lru_cache(maxsize=8)  # every proposal asks of the same trainer
def _assigned(text: str, owner: str) -> tuple[tuple[str, ast.expr], ...]:
    """What the trainer's start gives its attributes, in the order of the file."""
    tree = parsed(text)
    body = [] if tree is None else tree.body
    return tuple(
        (target.attr, node.value)
        for part in body
        if isinstance(part, ast.ClassDef) and part.name == owner
        for method in part.body
        if isinstance(method, ast.FunctionDef) and method.name == _START
        for node in _in_order(method)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if _is_own(target) and isinstance(target, ast.Attribute)
    )


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    for inside in ast.iter_child_nodes(node):
        yield inside
        yield from _in_order(inside)


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == _SELF


def _truth(node: ast.expr, keys: Mapping[str, str], known: Mapping[str, str]) -> str:
    """The key by which an expression is true; empty where that is not sure."""
    if isinstance(node, ast.BoolOp):
        parts = [_truth(value, keys, known) for value in node.values]
        sure = all(parts) if isinstance(node.op, ast.And) else any(parts)
        return next(filter(None, parts)) if sure else ""
    if isinstance(node, ast.Compare):
        absent = len(node.ops) == 1 and isinstance(node.ops[0], ast.IsNot)
        right = node.comparators[0]
        asks = absent and isinstance(right, ast.Constant) and right.value is None
        return _truth(node.left, keys, known) if asks else ""
    if isinstance(node, ast.Attribute):
        return known.get(node.attr, "") if _is_own(node) else keys.get(node.attr, "")
    if isinstance(node, ast.Call):
        return _read_by(node, keys, known)
    return ""


def _read_by(node: ast.Call, keys: Mapping[str, str], known: Mapping[str, str]) -> str:
    """The key that ``section.get("word", None)`` or ``getattr(section, "word")`` reads, or ``bool`` is of."""
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "bool" and len(node.args) == 1:
        return _truth(node.args[0], keys, known)
    words = [part.value for part in node.args if isinstance(part, ast.Constant)]
    return keys.get(words[0], "") if name in _READERS and words and isinstance(words[0], str) else ""
