"""Actors of Ray that a program makes beside the workers of the trainer, and the GPUs that they take.

Ray reserves the GPUs of an actor for it alone: what the placement groups of the workers hold is none of it.

Source: Ray 2.x, ``ray.remote`` and ``ActorClass.options`` (``num_gpus``).
"""

import ast
from collections.abc import Callable

from msgspec import Struct

from tuner.trainers.verl.trainer_code.code_line import CodeLine

_REMOTE, _OPTIONS, _GPUS = "remote", "options", "num_gpus"
_PLACED = ("placement_group", "scheduling_strategy")  # by which it takes a share of a reserved place


class GpuActor(Struct, frozen=True, kw_only=True):
    """An actor that a program makes by itself."""

    name: str  # of its class
    gpus: float  # a share of one where several may have the same
    line: CodeLine


def gpus_of_actor(node: ast.Call, class_of: Callable[[str], ast.ClassDef | None]) -> tuple[str, float] | None:
    """The class and the GPUs of the actor that a call makes, such as ``Scorer.options(num_gpus=1).remote()``.

    None of what makes no actor, of one without GPUs, and of one that is put into a placement group.
    """
    made = node.func
    if not isinstance(made, ast.Attribute) or made.attr != _REMOTE:
        return None
    options, of = _options(made.value)
    defined = class_of(of.id) if isinstance(of, ast.Name) else None
    if defined is None or any(word.arg in (None, *_PLACED) for word in options):
        return None
    gpus = _gpus([word for decorator in defined.decorator_list for word in _keywords(decorator)])
    said = _gpus(options)
    needed = gpus if said is None else said
    return (defined.name, needed) if needed else None


def _options(made: ast.expr) -> tuple[list[ast.keyword], ast.expr]:
    """The options that a class gets where the actor is made, and what they are given to."""
    called = made.func if isinstance(made, ast.Call) else None
    if isinstance(made, ast.Call) and isinstance(called, ast.Attribute) and called.attr == _OPTIONS:
        return made.keywords, called.value
    return [], made


def _keywords(decorator: ast.expr) -> list[ast.keyword]:
    """What stands in ``@ray.remote(...)``."""
    if not isinstance(decorator, ast.Call):
        return []
    name = getattr(decorator.func, "attr", getattr(decorator.func, "id", ""))
    return decorator.keywords if name == _REMOTE else []


def _gpus(words: list[ast.keyword]) -> float | None:
    """The number of GPUs that is given, if it stands there."""
    values = [getattr(word.value, "value", None) for word in words if word.arg == _GPUS]
    return next((value for value in values if isinstance(value, int | float)), None)
