"""Where a line belongs, as far as the syntax tree can tell; imports are held by import-linter."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tuner"
FILES = sorted(PACKAGE.rglob("*.py"))
TRAINER_KEY = re.compile(
    r"\b(?:actor_rollout_ref|ppo_\w+_per_gpu|gpu_memory_utilization|use_remove_padding)\b"
)
UNITS = {"1024 ** 2", "1024 ** 3", "2 ** 20", "2 ** 30", "10 ** 9", "1000000000.0", "1000000000000.0"}


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def below(*folders: str) -> list[Path]:
    """Files outside these folders."""
    return [path for path in FILES if not relative(path).startswith(folders)]


def code_strings(path: Path) -> Iterator[ast.Constant]:
    """String constants that are no docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node


@pytest.mark.parametrize("path", below("trainers/verl/", "cli/", "kernels/", "validate/"), ids=relative)
def test_trainer_keys_are_spelled_with_the_trainer_only(path: Path) -> None:
    spelled = [f"{path}:{node.lineno}" for node in code_strings(path) if TRAINER_KEY.search(str(node.value))]
    assert not spelled


@pytest.mark.parametrize("path", below("cli/"), ids=relative)
def test_only_the_command_line_ends_the_process(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    calls = [
        f"{path}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"sys.exit", "exit", "quit", "os._exit"}
    ]
    assert not calls


@pytest.mark.parametrize("path", below("units.py"), ids=relative)
def test_units_are_defined_once(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    units = [
        f"{path}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, (ast.BinOp, ast.Constant)) and ast.unparse(node) in UNITS
    ]
    assert not units


def test_no_rule_names_a_trainer_key_in_its_page() -> None:
    named = [
        relative(path)
        for path in (PACKAGE / "rules").glob("*.py")
        if TRAINER_KEY.search(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    ]
    assert not named
