"""What a file of a project imports, as far as the words of its launch let the statement be run.

An import in a ``try`` may fail, and one under a condition counts where that compares with a word of the
launch.
"""

import ast
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tuner.files import is_there

_ENTRY = "__main__"
_TYPES_ONLY = "TYPE_CHECKING"
#: What a launch has where it says nothing of the kind.
_DEFAULTS = {"fsdp": ("fsdp2", "megatron"), "vllm": ("sglang", "hf", "trtllm")}


class ProjectImport(Struct, frozen=True, kw_only=True):
    """A name that a file imports."""

    module: str  # with dots; as it is written
    name: str = ""  # that is taken from it; empty of a module alone
    level: int = 0  # folders that it goes up, where it is relative
    eager: bool = False  # whenever the file itself is imported
    sure: bool = True  # no condition around it is open


def imports_of(tree: ast.Module, words: Collection[str], *, is_program: bool) -> Iterator[ProjectImport]:
    """The imports of a file that a launch comes to, in their order.

    Args:
        tree: of its syntax.
        words: the texts among the values of the launch.
        is_program: whether the launch starts it.
    """
    usual = {word for word, others in _DEFAULTS.items() if not any(other in words for other in others)}
    known = {*words, *usual, *([_ENTRY] if is_program else [])}
    yield from _in_body(tree.body, known, eager=True, sure=True)


def _in_body(
    body: Sequence[ast.stmt], words: Collection[str], *, eager: bool, sure: bool
) -> Iterator[ProjectImport]:
    for statement in body:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield ProjectImport(module=alias.name, eager=eager, sure=sure)
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                yield ProjectImport(
                    module=statement.module or "",
                    name=alias.name,
                    level=statement.level,
                    eager=eager,
                    sure=sure,
                )
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _in_body(statement.body, words, eager=False, sure=sure)
        elif isinstance(statement, ast.If):
            holds = _holds(statement.test, words)
            for branch, value in ((statement.body, True), (statement.orelse, False)):
                if holds is not (not value):
                    taken = holds is value or (holds is None and not value and _is_chained(statement))
                    yield from _in_body(branch, words, eager=eager, sure=sure and taken)
        elif isinstance(statement, ast.Try):
            yield from _in_body(statement.body, words, eager=False, sure=False)
        elif isinstance(statement, ast.ClassDef | ast.With | ast.AsyncWith):
            yield from _in_body(statement.body, words, eager=eager, sure=sure)


def _holds(test: ast.expr, words: Collection[str]) -> bool | None:
    """Whether a condition holds that compares with texts: it does with a word of the launch.

    None of any other, and of texts that the launch does not have: they may be what the code itself finds.
    """
    if isinstance(test, ast.Name) and test.id == _TYPES_ONLY:
        return False
    texts = [
        node.value
        for node in ast.walk(test)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq | ast.In):
        return None
    return True if any(text in words for text in texts) else None


def _is_chained(statement: ast.If) -> bool:
    """Whether other conditions follow, one of which may hold for sure."""
    return len(statement.orelse) == 1 and isinstance(statement.orelse[0], ast.If)


def files_of(one: ProjectImport, file: Path, starts: Sequence[Path]) -> Iterator[Path]:
    """The files of the project that an import has Python read; none of what is installed.

    Args:
        one: the import.
        file: that has it.
        starts: folders in which Python looks.
    """
    parts = one.module.split(".") if one.module else []
    places = [file.parents[one.level - 1]] if 0 < one.level <= len(file.parents) else []
    for place in places or ([] if one.level else starts):
        folder = place.joinpath(*parts)
        candidates = (
            (folder.with_suffix(".py"), folder / "__init__.py") if parts else (place / "__init__.py",)
        )
        own = next((path for path in candidates if is_there(path, Path.is_file)), None)
        below = folder / f"{one.name}.py" if one.name.isidentifier() else folder
        inner = below if is_there(below, Path.is_file) else None
        if own is not None or inner is not None:
            yield from (path for path in (own, inner) if path is not None)
            return
