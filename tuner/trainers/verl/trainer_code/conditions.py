"""The values of expressions of a program, as far as the settings of a launch decide them: nothing is run.

What is not followed is unknown, and so is what rests on it: ``False and unknown`` is false, ``True and
unknown`` is unknown.
"""

import ast
import operator
from collections.abc import Callable, Mapping

from tuner.trainers.verl.trainer_code.program_frame import FollowedFrame
from tuner.trainers.verl.trainer_code.program_modules import ProgramModule, ProgramModules
from tuner.trainers.verl.trainer_code.program_values import (
    ABSENT,
    UNKNOWN,
    DefinedClass,
    DefinedFunction,
    ImportedName,
    Instance,
    RoleName,
    RoleTable,
    Section,
    Value,
    is_constant,
)

_ROLES = "Role"  # the enumeration of verl, ``trainer/ppo/ray_trainer.py`` or ``trainer/ppo/utils.py``
_COMPARED: Mapping[type[ast.cmpop], Callable[[Value, Value], Value]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def value_of(node: ast.expr, frame: FollowedFrame) -> Value:
    """The value of an expression."""
    follow = _FOLLOWED.get(type(node))
    return UNKNOWN if follow is None else follow(node, frame)


def truth_of(value: Value) -> Value:
    """Whether a value counts as true."""
    if isinstance(value, Instance | DefinedClass | DefinedFunction | RoleName):
        return True
    return bool(value) if is_constant(value) else UNKNOWN


def resolved(value: Value, modules: ProgramModules) -> Value:
    """A value, or the function or class that it is the name of in another file."""
    if not isinstance(value, ImportedName):
        return value
    file = modules.file(f"{value.module}.py") or modules.file(f"{value.module}/__init__.py")
    found = None if file is None else modules.defined(file, value.name)
    if found is None:
        return UNKNOWN
    module, node = found
    return DefinedClass(module, node) if isinstance(node, ast.ClassDef) else DefinedFunction(module, node)


def attribute_of(holder: Value, name: str, frame: FollowedFrame) -> Value:
    """An attribute of a value."""
    holder = resolved(holder, frame.modules)
    if isinstance(holder, Section):
        value = frame.read((*holder.path, name))
        return UNKNOWN if value is ABSENT else value
    if isinstance(holder, Instance):
        if name in holder.attributes:
            return holder.attributes[name]
        found = frame.modules.method(holder.of.module, holder.of.node, name)
        if found is None:
            return _of_class(holder.of, name, frame.modules)
        module, owner, method = found
        if any(isinstance(it, ast.Name) and it.id == "property" for it in method.decorator_list):
            return UNKNOWN
        return DefinedFunction(module, method, holder, DefinedClass(module, owner))
    if isinstance(holder, DefinedClass):
        return _member(holder.node, name)
    return holder if name == "value" and isinstance(holder, str) else UNKNOWN


def _of_class(of: DefinedClass, name: str, modules: ProgramModules) -> Value:
    """What a class, or the first of its bases that does, gives all its objects: a constant, or a name."""
    for module, owner in modules.with_bases(of.module, of.node):
        for part in owner.body:
            if not isinstance(part, ast.Assign):
                continue
            if any(isinstance(target, ast.Name) and target.id == name for target in part.targets):
                value = part.value
                if isinstance(value, ast.Name):
                    return _global(value.id, module)
                return value.value if isinstance(value, ast.Constant) else UNKNOWN
    return UNKNOWN


def _member(owner: ast.ClassDef, name: str) -> Value:
    """A member of an enumeration whose members are texts."""
    if not any(isinstance(base, ast.Name) and base.id in ("str", "StrEnum") for base in owner.bases):
        return UNKNOWN
    for part in owner.body:
        if not isinstance(part, ast.Assign) or not isinstance(part.value, ast.Constant):
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in part.targets):
            return part.value.value
    return UNKNOWN


def _name(node: ast.Name, frame: FollowedFrame) -> Value:
    if node.id in frame.names:
        return frame.names[node.id]
    return _global(node.id, frame.module)


def _global(name: str, module: ProgramModule) -> Value:
    """What a name of a file stands for."""
    if name in module.functions:
        return DefinedFunction(module, module.functions[name])
    if name in module.classes:
        return DefinedClass(module, module.classes[name])
    return ImportedName(*module.imports[name]) if name in module.imports else UNKNOWN


def _attribute(node: ast.Attribute, frame: FollowedFrame) -> Value:
    last = getattr(node.value, "attr", getattr(node.value, "id", ""))
    if last == _ROLES:
        return RoleName(node.attr)
    return attribute_of(value_of(node.value, frame), node.attr, frame)


def _subscript(node: ast.Subscript, frame: FollowedFrame) -> Value:
    holder, at = value_of(node.value, frame), value_of(node.slice, frame)
    if isinstance(holder, RoleTable):
        return frame.loads(at, holder) if isinstance(at, RoleName) else UNKNOWN
    if isinstance(holder, Section) and isinstance(at, str):
        return attribute_of(holder, at, frame)
    if is_constant(holder) and is_constant(at):
        try:
            return holder[at]
        except (LookupError, TypeError):
            return UNKNOWN
    return UNKNOWN


def _both(node: ast.BoolOp, frame: FollowedFrame) -> Value:
    """``and`` and ``or``, whose value is that of the part that decides."""
    decides = isinstance(node.op, ast.Or)
    known = True
    value: Value = UNKNOWN
    for part in node.values:
        value = value_of(part, frame)
        truth = truth_of(value)
        if truth is decides:
            return value if known else decides
        known = known and truth is not UNKNOWN
    return value if known else UNKNOWN


def _unary(node: ast.UnaryOp, frame: FollowedFrame) -> Value:
    value = value_of(node.operand, frame)
    if isinstance(node.op, ast.Not):
        truth = truth_of(value)
        return UNKNOWN if truth is UNKNOWN else not truth
    return -value if isinstance(node.op, ast.USub) and isinstance(value, int | float) else UNKNOWN


def _compare(node: ast.Compare, frame: FollowedFrame) -> Value:
    if len(node.ops) != 1:
        return UNKNOWN
    first, second = value_of(node.left, frame), value_of(node.comparators[0], frame)
    kind = node.ops[0]
    if isinstance(kind, ast.In | ast.NotIn):
        there = _contains(second, first, frame)
        return there if there is UNKNOWN or isinstance(kind, ast.In) else not there
    if isinstance(kind, ast.Is | ast.IsNot):
        same = _is_identical(first, second)
        return same if same is UNKNOWN or isinstance(kind, ast.Is) else not same
    if not (is_constant(first) and is_constant(second)):
        return UNKNOWN
    try:
        return bool(_COMPARED[type(kind)](first, second))
    except TypeError:
        return UNKNOWN


def _contains(holder: Value, value: Value, frame: FollowedFrame) -> Value:
    if isinstance(holder, RoleTable):
        return holder.has(value)
    if isinstance(holder, Section) and isinstance(value, str):
        found = frame.read((*holder.path, value))
        return UNKNOWN if found is UNKNOWN else found is not ABSENT
    if not is_constant(value) or not isinstance(holder, str | list | tuple | Mapping):
        return UNKNOWN
    if isinstance(holder, str):
        return value in holder if isinstance(value, str) else UNKNOWN
    if any(is_constant(it) and it == value for it in holder):
        return True
    return False if is_constant(list(holder)) else UNKNOWN


def _is_identical(first: Value, second: Value) -> Value:
    """``is`` between a value and one of the constants that there is one of."""
    if second is not None and not isinstance(second, bool):
        return UNKNOWN
    if isinstance(first, Section | Instance | RoleTable | DefinedClass | DefinedFunction | RoleName):
        return False
    return first is second if is_constant(first) else UNKNOWN


def _choice(node: ast.IfExp, frame: FollowedFrame) -> Value:
    truth = truth_of(value_of(node.test, frame))
    return UNKNOWN if truth is UNKNOWN else value_of(node.body if truth else node.orelse, frame)


def _list(node: ast.List | ast.Tuple | ast.Set, frame: FollowedFrame) -> Value:
    return [value_of(part, frame) for part in node.elts]


def _dict(node: ast.Dict, frame: FollowedFrame) -> Value:
    keys = [UNKNOWN if key is None else value_of(key, frame) for key in node.keys]
    values = [value_of(value, frame) for value in node.values]
    roles = [key.name for key in keys if isinstance(key, RoleName)]
    if len(roles) == len(keys):
        return frame.new_table(dict(zip(roles, values, strict=True)))
    if all(isinstance(key, str | int) for key in keys):
        return dict(zip(keys, values, strict=True))
    return UNKNOWN


_FOLLOWED: Mapping[type[ast.expr], Callable[..., Value]] = {
    ast.Constant: lambda node, frame: node.value,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BoolOp: _both,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.IfExp: _choice,
    ast.List: _list,
    ast.Tuple: _list,
    ast.Set: _list,
    ast.Dict: _dict,
    ast.Call: lambda node, frame: frame.call(node),
}
