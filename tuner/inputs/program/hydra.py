"""Reads in a Python program's syntax tree which configuration Hydra composes for it; nothing of it is run."""

import ast
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from tuner.errors import InputError
from tuner.files import note, read_bytes
from tuner.inputs.program.constants import UNKNOWN, Constants, Value, called_name
from tuner.units import MIB

_LARGEST = MIB  # of a program
_INITIALIZERS = {
    "initialize": "config_path",
    "initialize_config_dir": "config_dir",
    "initialize_config_module": "config_module",
}


class PrimaryConfig(Struct, frozen=True, kw_only=True):
    """The configuration that the code of a program names."""

    path: str | None = None  # of its folder, from the program's file; with "pkg://" of a package
    name: str | None = None
    settled: bool = True  # False where the code computes one of them
    line: int = 1  # of the program's file
    function: str = ""  # that gets the configuration; empty where the code composes it itself


class ReadProgram(Struct, frozen=True, kw_only=True):
    """What the code of a program says of its configuration."""

    config: PrimaryConfig | None = None
    calls: tuple[tuple[str, str], ...] = ()  # functions of other modules: the module, and the name there


def read_program(file: Path) -> ReadProgram:
    """What a program's file says of its configuration; nothing where it cannot be read as Python."""
    note([str(file)])
    try:
        return _read_file(file, file.stat().st_mtime_ns)
    except (InputError, OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ReadProgram()


@lru_cache(maxsize=16)  # a launch is parsed for its release, for its settings and for each of its other ways
def _read_file(file: Path, _written: int) -> ReadProgram:
    """What a file says that was written at a time."""
    text = read_bytes(file, most=_LARGEST)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    return _read(tree, str(file.absolute()))


def _read(tree: ast.Module, file: str) -> ReadProgram:
    names = _ConfigNames(Constants(tree, file), _hydra_names(tree))
    config = names.decorated(tree) or names.composed(tree)
    return ReadProgram(config=config, calls=() if config is not None else tuple(_imported_calls(tree)))


def _hydra_names(tree: ast.Module) -> frozenset[str]:
    """What Hydra's decorator is called in a module: ``hydra.main``, or the name that it is imported by."""
    names = {"hydra.main"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {
                f"{alias.asname}.main" for alias in node.names if alias.name == "hydra" and alias.asname
            }
        elif isinstance(node, ast.ImportFrom) and node.module in ("hydra", "hydra.main"):
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "main"}
    return frozenset(names)


def _imported_calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The functions of other modules that a program calls by the name that it imports them by."""
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if (alias.asname or alias.name) in called:
                    yield node.module, alias.name


class _ConfigNames:
    """Finds the configuration in a module, by Hydra's decorator or by its functions that compose."""

    def __init__(self, constants: Constants, decorators: frozenset[str]) -> None:
        self._constants = constants
        self._decorators = decorators

    def decorated(self, tree: ast.Module) -> PrimaryConfig | None:
        """The one of the function that Hydra's decorator stands at; the last one, where there are several."""
        configs = [
            self._config(decorator, "config_path", 0, self._argument(decorator, "config_name", 1), node.name)
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for decorator in node.decorator_list
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in self._decorators
        ]
        return configs[-1] if configs else None

    def composed(self, tree: ast.Module) -> PrimaryConfig | None:
        """The one of the call that composes it, in the folder that a call before it names."""
        start: ast.Call | None = None
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and called_name(node) in _INITIALIZERS:
                start = start or node
        for node in ast.walk(tree):
            if start is not None and isinstance(node, ast.Call) and called_name(node) == "compose":
                name = self._argument(node, "config_name", 0)
                return self._config(start, _INITIALIZERS[called_name(start)], 0, name, "")
        return None

    def _config(
        self, call: ast.Call, option: str, position: int, name: Value, function: str
    ) -> PrimaryConfig:
        path = self._argument(call, option, position)
        if option == "config_module" and isinstance(path, str):
            path = f"pkg://{path}"
        known = isinstance(path, str | None) and isinstance(name, str | None)
        return PrimaryConfig(
            path=path if isinstance(path, str) else None,
            name=name if isinstance(name, str) else None,
            settled=known,
            line=call.lineno,
            function=function,
        )

    def _argument(self, call: ast.Call, name: str, position: int) -> Value:
        for keyword in call.keywords:
            if keyword.arg == name:
                return self._constants.value(keyword.value)
            if keyword.arg is None:  # "**options" may have it
                return UNKNOWN
        return self._constants.value(call.args[position]) if len(call.args) > position else None
