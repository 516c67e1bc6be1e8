"""The trainers that a program of a project's own makes, in a repository with a copy of verl."""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

_TRAINERS = "trainer"  # what names of their modules have in them
_LOOP = "fit"


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
