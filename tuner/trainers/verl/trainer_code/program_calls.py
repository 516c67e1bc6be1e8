"""What calls in a program give: those of functions and classes of the copy itself, and few others."""

import ast
from collections.abc import Callable, Mapping
from math import isfinite

from tuner.trainers.verl.trainer_code.conditions import truth_of, value_of
from tuner.trainers.verl.trainer_code.program_assignments import forget
from tuner.trainers.verl.trainer_code.program_frame import FollowedFrame
from tuner.trainers.verl.trainer_code.program_names import attribute_of, resolved
from tuner.trainers.verl.trainer_code.program_values import (
    ABSENT,
    UNKNOWN,
    DefinedClass,
    DefinedFunction,
    ImportedName,
    Instance,
    Passed,
    RoleName,
    RoleTable,
    Section,
    Value,
    is_constant,
)

_TRAINS = ("fit",)  # behind which no more models are made
_CHANGES_NOTHING = frozenset({"keys", "values", "items", "get", "copy", "index", "count"})
_WHOLE = Section(())
_TEXT = ("lower", "upper", "strip", "startswith", "endswith")
#: Give what they are given, in another form: changes of it may be none of the other.
_HANDS_ON = ("deepcopy", "omega_conf_to_dataclass")
_MAKES_POOLS = "ResourcePoolManager"  # 0.3.0.post1 to 0.7.1 ``trainer/main_ppo.py``
_MAKES_WORKER = "RayClassWithInitArgs"  # verl 0.3.0.post1 to 0.9.1 ``single_controller/ray/base.py``


def called(node: ast.Call, frame: FollowedFrame) -> Value:
    """What a call gives, and what it changes."""
    given, named = _arguments_given(node, frame)
    func = _unwrapped(node.func)
    if isinstance(func, ast.Attribute):
        if isinstance(func.value, ast.Name) and func.value.id == "ray":
            return _of_ray(func.attr, given)
        if isinstance(func.value, ast.Call) and getattr(func.value.func, "id", "") == "super":
            return _of_super(func.attr, given, named, frame)
        if func.attr == "select" and given and isinstance(given[0], Section):
            return _selected(given, named, frame)
        holder = value_of(func.value, frame)
        if func.attr in _HANDS_ON:
            return _handed_on(given, frame)
        holder = resolved(holder, frame.modules)
        if not isinstance(holder, Instance):
            return _method(holder, func, given, named, frame)
        target = UNKNOWN if func.attr in _TRAINS else attribute_of(holder, func.attr, frame)
    else:
        if isinstance(func, ast.Name) and func.id not in frame.names and func.id in _BUILTINS:
            return _BUILTINS[func.id](given, frame)
        target = value_of(func, frame)
    if isinstance(func, ast.Name) and func.id in _HANDS_ON:
        return _handed_on(given, frame)
    if getattr(func, "id", "") == _MAKES_WORKER:
        worker = given[0] if given else named.get("cls", UNKNOWN)
        frame.run.uses.append((worker, named.get("config", UNKNOWN)))
        return UNKNOWN
    if getattr(func, "id", "").endswith(_MAKES_POOLS):
        frame.run.pools.append(_of_pools(given, named, is_sure=frame.run.unknown == 0))
        return UNKNOWN
    return _followed(target, given, named, frame)


def _of_pools(given: list[Value], named: dict[str, Value], *, is_sure: bool) -> tuple[Value, Value]:
    """The sizes of pools of GPUs, and the pools of roles, that their manager is made with."""
    values = dict(zip(("resource_pool_spec", "mapping"), given, strict=False)) | named
    names = ("resource_pool_spec", "mapping")
    spec, mapping = (values.get(name, UNKNOWN) if is_sure else UNKNOWN for name in names)
    return spec, mapping


def _arguments_given(node: ast.Call, frame: FollowedFrame) -> tuple[list[Value], dict[str, Value]]:
    """The arguments of a call; of those behind an unknown number of others none is known."""
    given: list[Value] = []
    for it in node.args:
        value = value_of(it.value if isinstance(it, ast.Starred) else it, frame)
        if not isinstance(it, ast.Starred):
            given.append(value)
        elif isinstance(value, list):
            given.extend(value)
        else:
            break
    named: dict[str, Value] = {}
    for keyword in node.keywords:
        value = value_of(keyword.value, frame)
        if keyword.arg is not None:
            named[keyword.arg] = value
        elif isinstance(value, dict):
            named.update(value)
    return given, named


def _unwrapped(func: ast.expr) -> ast.expr:
    """What is called behind ``.remote`` and ``.options(...)``."""
    while True:
        if isinstance(func, ast.Attribute) and func.attr == "remote":
            if isinstance(func.value, ast.Name) and func.value.id == "ray":
                return func
            func = func.value
        elif isinstance(func, ast.Call) and getattr(func.func, "attr", "") == "options":
            func = func.func.value  # type: ignore[attr-defined]  # it has an attribute's name
        else:
            return func


def _handed_on(given: list[Value], frame: FollowedFrame) -> Value:
    if not given or not isinstance(given[0], Section):
        return UNKNOWN
    frame.run.copied = True
    return given[0]


def _of_ray(name: str, given: list[Value]) -> Value:
    if name == "get":
        return given[0] if given else UNKNOWN
    return (given[0] if given else Passed()) if name == "remote" else UNKNOWN


def _followed(target: Value, given: list[Value], named: dict[str, Value], frame: FollowedFrame) -> Value:
    """What one of the copy's own gives.

    Followed are methods, functions that get the whole configuration or the table of roles, and classes that
    get the table, as a trainer does, or nothing, as a runner does. Files of others are not read.
    """
    values = [*given, *named.values()]
    if isinstance(target, Passed):
        return given[0] if given else UNKNOWN
    tables = [it for it in values if isinstance(it, RoleTable)]
    if isinstance(target, ImportedName) and (tables or _WHOLE in values or not values):
        target = resolved(target, frame.modules)
    if isinstance(target, DefinedClass) and (tables or not values):
        return _made(target, given, named, frame)
    if isinstance(target, DefinedFunction) and (tables or _WHOLE in values or target.instance is not None):
        owner = () if target.instance is None else (target.instance,)
        return frame.run.follow(target, _arguments(target, [*owner, *given], named))
    if not isinstance(target, DefinedClass | ImportedName):  # what pools are made with takes no role away
        for table in tables:
            table.is_open = True
    return UNKNOWN


def _made(of: DefinedClass, given: list[Value], named: dict[str, Value], frame: FollowedFrame) -> Value:
    """An object of a class."""
    made = Instance(of=of, made_at=frame.run.unknown, attributes={})
    found = frame.modules.method(of.module, of.node, "__init__")
    if found is not None:
        module, owner, method = found
        function = DefinedFunction(module, method, made, DefinedClass(module, owner))
        frame.run.follow(function, _arguments(function, [made, *given], named))
    frame.run.made.append(made)
    return made


def _of_super(name: str, given: list[Value], named: dict[str, Value], frame: FollowedFrame) -> Value:
    owner, instance = frame.function.owner, frame.function.instance
    if owner is None or instance is None or name in _TRAINS:
        return UNKNOWN
    found = frame.modules.method(owner.module, owner.node, name, above=True)
    if found is None:
        return UNKNOWN
    module, above, method = found
    function = DefinedFunction(module, method, instance, DefinedClass(module, above))
    return frame.run.follow(function, _arguments(function, [instance, *given], named))


def _arguments(function: DefinedFunction, given: list[Value], named: dict[str, Value]) -> dict[str, Value]:
    """The values of a function's parameters; a default that is no constant is unknown."""
    parameters = function.node.args
    places = [*parameters.posonlyargs, *parameters.args]
    names = [it.arg for it in (*places, *parameters.kwonlyargs)]
    values: dict[str, Value] = dict.fromkeys(names, UNKNOWN)
    defaults = zip(reversed(places), reversed(parameters.defaults), strict=False)
    further = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    for parameter, default in (*defaults, *further):
        if isinstance(default, ast.Constant):
            values[parameter.arg] = default.value
    values.update(zip((it.arg for it in places), given, strict=False))
    values.update((name, value) for name, value in named.items() if name in names)
    if parameters.vararg is not None:
        values[parameters.vararg.arg] = given[len(places) :]
    if parameters.kwarg is not None:
        values[parameters.kwarg.arg] = {name: it for name, it in named.items() if name not in names}
    return values


def _method(
    holder: Value, func: ast.Attribute, given: list[Value], named: dict[str, Value], frame: FollowedFrame
) -> Value:
    """What a method of a section, of the table of roles, or of a value of Python's own gives."""
    name = func.attr
    if isinstance(holder, Section):
        return _got(holder, given, named, frame) if name == "get" and given else UNKNOWN
    if isinstance(holder, RoleTable):
        return _of_table(holder, name, given, frame)
    if isinstance(holder, dict) and name == "get" and given and is_constant(given[0]):
        default = given[1] if len(given) > 1 else named.get("default")
        return holder.get(given[0], default)
    if isinstance(holder, str) and name in _TEXT and all(isinstance(it, str) for it in given):
        return getattr(holder, name)(*given)
    if isinstance(holder, list | dict) and name not in _CHANGES_NOTHING:
        forget(frame, func.value)
        return UNKNOWN
    target = attribute_of(holder, name, frame)
    return _followed(target, given, named, frame)


def _got(holder: Section, given: list[Value], named: dict[str, Value], frame: FollowedFrame) -> Value:
    """``config.get(key, default)``: OmegaConf gives null where the key is set to it."""
    if not isinstance(given[0], str):
        return UNKNOWN
    value = frame.read((*holder.path, given[0]))
    default = given[1] if len(given) > 1 else named.get("default_value", named.get("default"))
    return default if value is ABSENT else value


def _selected(given: list[Value], named: dict[str, Value], frame: FollowedFrame) -> Value:
    """``OmegaConf.select(config, "a.b", default=...)``: the default where there is nothing, or null."""
    if len(given) < 2 or not isinstance(given[1], str):
        return UNKNOWN
    value = frame.read((*given[0].path, *given[1].split(".")))
    return named.get("default") if value is ABSENT else value


def _of_table(table: RoleTable, name: str, given: list[Value], frame: FollowedFrame) -> Value:
    is_sure = frame.run.unknown <= table.made_at
    if name == "update" and given and isinstance(given[0], RoleTable):
        for role, worker in given[0].workers.items():
            table.put(RoleName(role), worker, sure=is_sure)
        table.is_open = table.is_open or given[0].is_open
    elif name == "pop" and given:
        table.take(given[0], sure=is_sure)
    elif name == "get" and given and isinstance(given[0], str) and not table.workers:
        return given[1] if len(given) > 1 and not table.is_open else UNKNOWN
    elif name not in _CHANGES_NOTHING:
        table.is_open = True
    return UNKNOWN


def _has(given: list[Value], frame: FollowedFrame) -> Value:
    if len(given) == 2 and isinstance(given[0], Section) and isinstance(given[1], str):
        value = frame.read((*given[0].path, given[1]))
        return UNKNOWN if value is UNKNOWN else value is not ABSENT
    return UNKNOWN


def _attribute(given: list[Value], frame: FollowedFrame) -> Value:
    if len(given) == 3 and isinstance(given[0], Section) and isinstance(given[1], str):
        return _got(given[0], given[1:], {}, frame)
    return UNKNOWN


def _truth(given: list[Value], frame: FollowedFrame) -> Value:
    return truth_of(given[0]) if given else False


def _length(given: list[Value], frame: FollowedFrame) -> Value:
    return len(given[0]) if given and isinstance(given[0], str | list | dict) else UNKNOWN


def _is_finite(value: Value) -> bool:
    return isinstance(value, int | float) and isfinite(value)


def _are_numbers(given: list[Value]) -> bool:
    return len(given) > 1 and all(isinstance(it, int | float) for it in given)


def _nothing(given: list[Value], frame: FollowedFrame) -> Value:
    return UNKNOWN


_BUILTINS: Mapping[str, Callable[[list[Value], FollowedFrame], Value]] = {
    "bool": _truth,
    "int": lambda given, frame: int(given[0]) if given and _is_finite(given[0]) else UNKNOWN,
    "max": lambda given, frame: max(given) if _are_numbers(given) else UNKNOWN,
    "min": lambda given, frame: min(given) if _are_numbers(given) else UNKNOWN,
    "hasattr": _has,
    "getattr": _attribute,
    "len": _length,
    "print": _nothing,
    "pprint": _nothing,
    "isinstance": _nothing,
    "str": lambda given, frame: given[0] if given and isinstance(given[0], str) else UNKNOWN,
}
