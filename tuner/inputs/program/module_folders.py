"""The folders in which a program has Python look for modules: ``sys.path.insert(0, "lib")``."""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tuner.errors import InputError
from tuner.files import note, read_bytes
from tuner.inputs.program.constants import Constants
from tuner.units import MIB


def module_folders(file: Path) -> tuple[str, ...]:
    """What a program puts into ``sys.path``, as far as its code tells that, what comes first before the rest.

    Args:
        file: of the program; nothing of it is run.
    """
    note([str(file)])
    try:
        return _read(file.absolute(), file.stat().st_mtime_ns)
    except (InputError, OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


@lru_cache(maxsize=16)  # a launch is parsed for its release, for its settings and for each of its other ways
def _read(file: Path, _written: int) -> tuple[str, ...]:
    text = read_bytes(file, most=MIB)
    if b"sys.path" not in text:
        return ()
    tree = ast.parse(text)
    constants = Constants(tree, str(file))
    inserted, appended = list[str](), list[str]()
    for name, node in _calls(tree):
        value = constants.value(node)
        if isinstance(value, str):
            (inserted if name == "insert" else appended).append(value)
    return tuple(dict.fromkeys((*reversed(inserted), *appended)))


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The calls that add to the list, with what they add."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=ast.Name(id="sys"), attr="path"),
                    attr="insert" | "append" as name,
                ),
                args=[*_place, added],
            ):
                yield name, added
