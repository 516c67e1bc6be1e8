"""What a program that is followed assigns: names, attributes, roles, and keys of its configuration.

Under a condition that is not known, what is assigned is known only where it was so before.
"""

import ast

from tuner.trainers.verl.trainer_code.conditions import value_of
from tuner.trainers.verl.trainer_code.program_frame import FollowedFrame
from tuner.trainers.verl.trainer_code.program_values import (
    UNKNOWN,
    Instance,
    RoleTable,
    Section,
    Value,
    is_constant,
    is_same,
)


def assign(frame: FollowedFrame, target: ast.expr, value: Value) -> None:
    """Give a target of an assignment its value."""
    if isinstance(target, ast.Name):
        set_name(frame, target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        parts = value if isinstance(value, list | tuple) and len(value) == len(target.elts) else ()
        for at, part in enumerate(target.elts):
            assign(frame, part, parts[at] if parts else UNKNOWN)
    elif isinstance(target, ast.Attribute):
        _set_below(frame, value_of(target.value, frame), target.attr, value)
    elif isinstance(target, ast.Subscript):
        holder, at = value_of(target.value, frame), value_of(target.slice, frame)
        if isinstance(holder, RoleTable):
            holder.put(at, value, sure=frame.run.unknown <= holder.made_at)
        elif isinstance(holder, Section) and isinstance(at, str):
            _set_below(frame, holder, at, value)
        elif isinstance(holder, dict) and isinstance(at, str) and frame.run.unknown == 0:
            holder[at] = value
        else:
            forget(frame, target.value)


def set_name(frame: FollowedFrame, name: str, value: Value) -> None:
    """Give a local name its value."""
    is_sure = frame.run.unknown <= frame.made_at
    same = name in frame.names and is_same(frame.names[name], value)
    frame.names[name] = value if is_sure or same else UNKNOWN


def _set_below(frame: FollowedFrame, holder: Value, name: str, value: Value) -> None:
    if isinstance(holder, Section):
        path = (*holder.path, name)
        if value == Section(path):
            return
        known = value if is_constant(value) and not frame.run.copied else UNKNOWN
        is_sure = frame.run.unknown == 0 or is_same(frame.read(path), known)
        frame.run.set_paths[path] = known if is_sure else UNKNOWN
    elif isinstance(holder, Instance):
        is_sure = frame.run.unknown <= holder.made_at
        same = name in holder.attributes and is_same(holder.attributes[name], value)
        holder.attributes[name] = value if is_sure or same else UNKNOWN


def delete(frame: FollowedFrame, target: ast.expr) -> None:
    """Take a name, or the worker of a role, away."""
    if isinstance(target, ast.Name):
        frame.names[target.id] = UNKNOWN
    elif isinstance(target, ast.Subscript):
        holder = value_of(target.value, frame)
        if isinstance(holder, RoleTable):
            holder.take(value_of(target.slice, frame), sure=frame.run.unknown <= holder.made_at)
        else:
            forget(frame, target.value)


def forget(frame: FollowedFrame, node: ast.expr) -> None:
    """Know no more of what a name or an attribute holds, which something has changed."""
    if isinstance(node, ast.Name) and node.id in frame.names:
        frame.names[node.id] = UNKNOWN
    elif isinstance(node, ast.Attribute):
        _set_below(frame, value_of(node.value, frame), node.attr, UNKNOWN)
