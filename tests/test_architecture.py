"""Where a line belongs, as far as the syntax tree can tell; imports are held by import-linter."""

import ast
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "tuner"
FILES = sorted(PACKAGE.rglob("*.py"))
TRAINER_KEY = re.compile(
    r"\b(?:actor_rollout_ref|ppo_\w+_per_gpu|gpu_memory_utilization|use_remove_padding)\b"
)
UNITS = {"1024 ** 2", "1024 ** 3", "2 ** 20", "2 ** 30", "10 ** 9", "1000000000.0", "1000000000000.0"}
#: How a power or a float of as many digits is written: with an operator, an exponent, or noughts and a point.
NUMBER = re.compile(r"\*\*|\d[eE][+_]?\d|0_?0\.")
ENDING = re.compile(r"exit|quit")
ENDS = {"sys.exit", "exit", "quit", "os._exit"}


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def below(*folders: str) -> list[Path]:
    """Files outside these folders."""
    return [path for path in FILES if not relative(path).startswith(folders)]


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path))


def holding(pattern: re.Pattern[str], files: list[Path]) -> list[Path]:
    """The files that have such a text: the others need not be parsed."""
    return [path for path in files if pattern.search(text(path))]


def places(files: list[Path], offends: Callable[[ast.AST], bool]) -> list[str]:
    """Where nodes of the files offend a law."""
    return [
        f"{path}:{node.lineno}"  # type: ignore[attr-defined]
        for path in files
        for node in ast.walk(tree(path))
        if offends(node)
    ]


def test_trainer_keys_are_spelled_with_the_trainer_only() -> None:
    # NeMo-RL's own package names vLLM's key of the share, which verl spells alike
    files = below("trainers/verl/", "trainers/nemo_rl/", "cli/", "kernels/", "validate/", "inside_verl/")
    assert len(files) > 300
    files = holding(TRAINER_KEY, files)
    docstrings = {
        id(node.value) for path in files for node in ast.walk(tree(path)) if isinstance(node, ast.Expr)
    }

    def is_key(node: ast.AST) -> bool:
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            return False
        return isinstance(node.value, str) and TRAINER_KEY.search(node.value) is not None

    assert not places(files, is_key)


def test_only_the_command_line_ends_the_process() -> None:
    def is_end(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func) in ENDS

    assert not places(holding(ENDING, below("cli/")), is_end)


def test_units_are_defined_once() -> None:
    def is_unit(node: ast.AST) -> bool:
        number = isinstance(node, ast.Constant) and isinstance(node.value, float)
        return (number or isinstance(node, ast.BinOp)) and ast.unparse(node) in UNITS

    assert not places(holding(NUMBER, below("units.py")), is_unit)


def test_no_rule_names_a_trainer_key_in_its_page() -> None:
    named = [
        relative(path)
        for path in (PACKAGE / "rules").rglob("*.py")
        if TRAINER_KEY.search(ast.get_docstring(tree(path)) or "")
    ]
    assert not named
