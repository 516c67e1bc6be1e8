"""The trainers that a program makes beside a copy of verl: those of a project's own, or of the copy."""

import ast
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode
    from tuner.trainers.verl.trainer_code.sure_conditions import SureConditions

_TRAINERS = "trainer"  # what names of their modules have in them
_LOOP = "fit"
_PROGRAM, _CONFIG = "trainer/main_ppo.py", "config"


def own_trainers(started: str, code: "TrainerCode") -> tuple[tuple[str, str, str], ...]:
    """The files, texts and classes of the trainers that a program imports and makes.

    Args:
        started: the program.
        code: the copy of verl, and what belongs to it.
    """
    return code.remembered(("own trainers", started), lambda: tuple(_own_trainers(started, code)))


def _own_trainers(started: str, code: "TrainerCode") -> Iterator[tuple[str, str, str]]:
    from tuner.trainers.verl.trainer_code.statements import parsed  # of few launches

    program = parsed(code.text(f"{started.removesuffix('.py').replace('.', '/')}.py") or "")
    if program is None:
        return
    calls = (node.func for node in ast.walk(program) if isinstance(node, ast.Call))
    made = {function.id for function in calls if isinstance(function, ast.Name)}
    for file in code.imports(started, _TRAINERS):
        text = code.text(file) or ""
        module = parsed(text)
        for part in [] if module is None else module.body:
            if isinstance(part, ast.ClassDef) and part.name in made and _has_loop(part):
                yield file, text, part.name


def _has_loop(trainer: ast.ClassDef) -> bool:
    return any(isinstance(part, ast.FunctionDef) and part.name == _LOOP for part in trainer.body)


def trainer_made(
    code: "TrainerCode", text: str, value_of: Callable[[tuple[str, ...], object], object]
) -> str:
    """The class with a loop of its own that verl's program surely makes beside verl's; empty without one.

    Args:
        code: the copy of verl.
        text: of the file with its trainer.
        value_of: the values of the launch, by which conditions are decided.
    """
    from tuner.trainers.verl.trainer_code.calls_of_fit import TRAINER
    from tuner.trainers.verl.trainer_code.statements import parsed
    from tuner.trainers.verl.trainer_code.sure_conditions import SureConditions

    module = parsed(text)
    parts = [] if module is None else module.body
    owners = {part.name for part in parts if isinstance(part, ast.ClassDef) and _has_loop(part)}
    if not owners - {TRAINER}:
        return ""
    program = parsed(code.text(f"{code.root.name}/{_PROGRAM}") or "")
    conditions = SureConditions(key_of=_key_of, value_of=value_of)
    made = list(_named_in([] if program is None else program.body, owners, conditions))
    return made[-1] if made and made[-1] != TRAINER else ""


def _named_in(body: list[ast.stmt], owners: Collection[str], conditions: "SureConditions") -> Iterator[str]:
    """The classes that statements name where nothing around them is open."""
    for statement in body:
        inside = [part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt)]
        if isinstance(statement, ast.If):
            held = conditions.holds(statement.test)
            inside = [] if held is None else statement.body if held else statement.orelse
        for part in ast.iter_child_nodes(statement):
            names = () if isinstance(part, ast.stmt) else ast.walk(part)
            yield from (node.id for node in names if isinstance(node, ast.Name) and node.id in owners)
        yield from _named_in(inside, owners, conditions)


def _key_of(node: ast.expr) -> tuple[str, ...]:
    """The key that a chain of attributes of ``config``, also of one's own, names."""
    path = ast.unparse(node).split(".") if isinstance(node, ast.Attribute) else []
    path = path[1:] if path[:1] == ["self"] else path
    return tuple(path[1:]) if path[:1] == [_CONFIG] else ()
