"""Parts of statements and calls of a program: what they set, what they are given, and which key that is."""

import ast

from tuner.inputs.program.constants import called_name


def outer_calls(node: ast.expr) -> list[ast.Call]:
    """The outermost call with what is passed to it that lays nothing: ``ray.get(run.remote(config))``."""
    calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
    outer = [one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "remote"]
    return outer or calls[:1]


def parts_settings(loop: ast.For) -> bool:
    """Whether a loop takes words apart at their ``=``: ``key, value = word.split("=", 1)``."""
    return any(
        isinstance(node, ast.Call)
        and called_name(node) in ("split", "partition")
        and any(isinstance(one, ast.Constant) and one.value == "=" for one in node.args)
        for node in ast.walk(loop)
    )


def targets_in(loop: ast.For) -> list[ast.expr]:
    """What assignments of a loop set."""
    return [target for node in ast.walk(loop) if isinstance(node, ast.Assign) for target in node.targets]


def updated_in(loop: ast.For) -> list[str]:
    """The names that ``OmegaConf.update`` changes in a loop."""
    calls = (node for node in ast.walk(loop) if isinstance(node, ast.Call))
    return [root_of(call.args[0]) for call in calls if called_name(call) == "update" and call.args]


def passed_to(call: ast.Call) -> list[ast.expr]:
    """What a call gets, by position and by name."""
    return [*call.args, *(word.value for word in call.keywords)]


def root_of(target: ast.expr) -> str:
    """The name that a target begins with; empty where it begins otherwise."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


def key_of(target: ast.expr) -> tuple[str | None, ...]:
    """The key that an attribute or an item stands for; with None where it is computed."""
    match target:
        case ast.Attribute(value=inner, attr=name):
            return (*key_of(inner), name)
        case ast.Subscript(value=inner, slice=ast.Constant(value=str(name))):
            return (*key_of(inner), name)
        case ast.Subscript(value=inner):
            return (*key_of(inner), None)
    return ()
