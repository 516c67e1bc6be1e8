"""Whether the actor of a copy's own worker pads, whatever ``use_remove_padding`` says; nothing is run.

A recipe may give the worker an actor with a pass of its own, which hands the module whole rows with their
attention mask and never reads the key. Only the actor that the worker's ``init_model`` makes counts, and of
it what ``update_policy`` calls in the same class.
"""

import ast
from collections.abc import Iterator

from tuner.trainers.verl.trainer_code.program_modules import (
    Function,
    ProgramModule,
    ProgramModules,
    functions_of,
)
from tuner.trainers.verl.trainer_code.program_values import DefinedClass

_MAKES, _UPDATES = "init_model", "update_policy"
_ACTOR, _MODULE = "actor", "actor_module"  # attributes of the worker and of the actor, in every release
_KEY, _MASK = "use_remove_padding", "attention_mask"


def pads_actor(worker: DefinedClass, modules: ProgramModules) -> bool:
    """Whether every actor that the worker's own ``init_model`` makes has a pass that pads."""
    made = modules.method(worker.module, worker.node, _MAKES)
    if made is None:
        return False
    actors = list(_actors(made[0], made[2], modules))
    return bool(actors) and all(actor is not None and _pads(*actor, modules) for actor in actors)


def _actors(
    module: ProgramModule, function: Function, modules: ProgramModules
) -> Iterator[tuple[ProgramModule, ast.ClassDef] | None]:
    """The classes whose objects become the worker's actor; None of one that the copy does not have."""
    imports = {
        name: source
        for part in ast.walk(function)
        if isinstance(part, ast.ImportFrom)
        for name, source in module.imported(part)
    }
    for part in ast.walk(function):
        if isinstance(part, ast.Assign) and any(_is_own(target, _ACTOR) for target in part.targets):
            made = part.value.func if isinstance(part.value, ast.Call) else None
            yield _class_of(made, module, imports, modules) if isinstance(made, ast.Name) else None


def _class_of(
    made: ast.Name, module: ProgramModule, imports: dict[str, tuple[str, str]], modules: ProgramModules
) -> tuple[ProgramModule, ast.ClassDef] | None:
    name, place = made.id, module
    if name in imports:
        source, name = imports[name]
        file = modules.file(f"{source}.py") or modules.file(f"{source}/__init__.py")
        if file is None:
            return None
        place = file
    known = modules.defined(place, name)
    return (known[0], known[1]) if known is not None and isinstance(known[1], ast.ClassDef) else None


def _pads(module: ProgramModule, actor: ast.ClassDef, modules: ProgramModules) -> bool:
    updates = modules.method(module, actor, _UPDATES)
    if updates is None:
        return False
    _place, owner, start = updates
    reached = list(_reached(start, functions_of(owner.body)))
    calls = (part for one in reached for part in ast.walk(one) if isinstance(part, ast.Call))
    masked = any(_is_own(call.func, _MODULE) and _MASK in _keywords(call) for call in calls)
    return masked and _KEY not in set(_words(owner))


def _reached(start: Function, methods: dict[str, Function]) -> Iterator[Function]:
    """A method, and those of its class that it calls on the way."""
    known, ahead = {start.name}, [start]
    while ahead:
        one = ahead.pop()
        yield one
        for name, method in methods.items():
            calls = (part.func for part in ast.walk(one) if isinstance(part, ast.Call))
            if name not in known and any(_is_own(func, name) for func in calls):
                known.add(name)
                ahead.append(method)


def _is_own(node: ast.expr, name: str) -> bool:
    """Whether an expression is ``self.name``."""
    return isinstance(node, ast.Attribute) and node.attr == name and getattr(node.value, "id", "") == "self"


def _keywords(call: ast.Call) -> list[str | None]:
    return [keyword.arg for keyword in call.keywords]


def _words(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        word = getattr(part, "attr", None) or getattr(part, "id", None) or getattr(part, "value", None)
        if isinstance(word, str):
            yield word
