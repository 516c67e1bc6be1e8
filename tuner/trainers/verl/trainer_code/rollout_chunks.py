"""Whether a copy's rollout hands its engine the sequences of a replica a few at a time, and how many.

No release does: an engine gets all of them, and runs as many as its cache holds. Told is a loop over slices
of a list, whose body waits for what it starts. Nothing is imported or run.
"""

import ast
from collections.abc import Iterator

from tuner.inputs.settings import RolloutChunks
from tuner.trainers.verl.trainer_code.statements import parsed

#: What a body calls that has an engine generate, and waits for it.
#: Source: verl 0.3.0.post1 to 0.7.1 ``workers/rollout/vllm_rollout`` and ``sglang_rollout``.
_GENERATES = frozenset({"generate", "async_generate", "chat", "run_until_complete", "asyncio.run"})
_CONFIGURATIONS = ("self.config.", "config.")
_SECTION = "actor_rollout_ref.rollout"


def rollout_chunks(text: str) -> Iterator[RolloutChunks]:
    """The loops of a file over slices that are generated one after another."""
    tree = parsed(text)
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for part in ast.walk(function):
                if isinstance(part, ast.For) and (step := _step(part)) is not None and _generates(part):
                    yield _chunks(function, step)


def _step(loop: ast.For) -> ast.expr | None:
    """The step of a loop over ``range(0, number, step)`` that takes slices; None of any other."""
    ranged = loop.iter
    if not (isinstance(ranged, ast.Call) and ast.unparse(ranged.func) == "range" and len(ranged.args) == 3):
        return None
    name = ast.unparse(loop.target)
    slices = (part for part in ast.walk(loop) if isinstance(part, ast.Slice) and part.lower is not None)
    taken = any(ast.unparse(part.lower) == name for part in slices if part.lower is not None)
    return ranged.args[2] if taken else None


def _generates(loop: ast.For) -> bool:
    calls = (part.func for part in ast.walk(loop) if isinstance(part, ast.Call))
    return any(
        isinstance(func, ast.Attribute) and (func.attr in _GENERATES or ast.unparse(func) in _GENERATES)
        for func in calls
    )


def _chunks(function: ast.FunctionDef | ast.AsyncFunctionDef, step: ast.expr) -> RolloutChunks:
    if isinstance(step, ast.Name):
        given = [
            part.value
            for part in ast.walk(function)
            if isinstance(part, ast.Assign) and any(ast.unparse(one) == step.id for one in part.targets)
        ]
        step = given[0] if len(given) == 1 else step
    if isinstance(step, ast.Constant) and isinstance(step.value, int):
        return RolloutChunks(function=function.name, number=step.value)
    default = None
    text = ast.unparse(step)
    if isinstance(step, ast.Call) and isinstance(step.func, ast.Attribute) and step.func.attr == "get":
        words = [part.value for part in step.args if isinstance(part, ast.Constant)]
        if len(words) != len(step.args) or not words or not isinstance(words[0], str):
            return RolloutChunks(function=function.name)
        text = f"{ast.unparse(step.func.value)}.{words[0]}"
        default = words[1] if len(words) > 1 and isinstance(words[1], int) else None
    owner = next((one for one in _CONFIGURATIONS if text.startswith(one)), None)
    if owner is None or not text.replace(".", "").isidentifier():
        return RolloutChunks(function=function.name)
    return RolloutChunks(function=function.name, number=default, key=f"{_SECTION}.{text.removeprefix(owner)}")
