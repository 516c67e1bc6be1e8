"""What arguments the reward function of a launch takes, read from its file and never run."""

import ast
from pathlib import Path

from tuner.errors import InputError
from tuner.files import is_there, read_bytes
from tuner.inputs.settings import Settings
from tuner.units import MIB

_SECTIONS = ("reward.custom_reward_function", "custom_reward_function")
_NAME = "compute_score"  # where a launch names none
_LISTS = frozenset({"data_sources", "solution_strs", "ground_truths"})  # what the manager batch gives
_LEVELS_UP = 8


def takes_lists(settings: Settings) -> bool:
    """Whether the function takes the responses of a batch at once, which the manager ``naive`` never gives.

    Source: verl 0.7.0 ``workers/reward_manager/batch.py`` (``compute_score``: ``solution_strs=``), there
    ``experimental/reward_loop/reward_manager/naive.py`` (``solution_str=``).
    """
    section = next((it for it in _SECTIONS if settings.is_set(f"{it}.path")), None)
    if section is None:
        return False
    origin, path = settings.origin(f"{section}.path"), settings.get(f"{section}.path")
    file = _file(str(path), "" if origin is None or origin.location is None else origin.location.source)
    if file is None:
        return False
    try:
        tree = ast.parse(read_bytes(file, most=MIB))
    except (InputError, SyntaxError, ValueError, RecursionError):
        return False
    name = settings.get(f"{section}.name") or _NAME
    functions = (it for it in tree.body if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef))
    return any(
        it.name == name and any(one.arg in _LISTS for one in (*it.args.args, *it.args.kwonlyargs))
        for it in functions
    )


def _file(path: str, source: str) -> Path | None:
    """The file, from the folder of the launch or one above it."""
    here = Path(source).absolute().parent
    places = (place / path for place in (here, *list(here.parents)[:_LEVELS_UP]))
    return next((place for place in places if is_there(place, Path.is_file)), None)
