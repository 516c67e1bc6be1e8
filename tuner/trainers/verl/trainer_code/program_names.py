"""What the names, attributes and subscripts of a program that is followed stand for; nothing is run."""

import ast
from collections.abc import Callable, Mapping

from tuner.trainers.verl.trainer_code.conditions import value_of
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


def operand_of(node: ast.expr, frame: FollowedFrame) -> Value:
    """What a part of an expression stands for that is no operation."""
    follow = _FOLLOWED.get(type(node))
    return UNKNOWN if follow is None else follow(node, frame)


def is_in(holder: Value, value: Value, frame: FollowedFrame) -> Value:
    """Whether a role is in the table of workers, or a key in a section."""
    if isinstance(holder, RoleTable):
        return holder.has(value)
    if isinstance(holder, Section) and isinstance(value, str):
        there = frame.read((*holder.path, value))
        return UNKNOWN if there is UNKNOWN else there is not ABSENT
    return UNKNOWN


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
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Dict: _dict,
    ast.Call: lambda node, frame: frame.call(node),
}
