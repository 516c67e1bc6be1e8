"""The modules of a project of its own that its program runs, where the trainer's package lies elsewhere.

Its workers, rollout and trainer may be copies of the trainer's that were changed: what a release does in such
a module says nothing of them. Nothing is imported or run.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import TunerError
from tuner.files import read_bytes
from tuner.inputs.program.find import file_of_program
from tuner.trainers.verl.trainer_code.code_line import CodeLine
from tuner.trainers.verl.trainer_code.project_imports import ProjectImport, files_of, imports_of
from tuner.trainers.verl.trainer_code.python_files import PythonFiles
from tuner.trainers.verl.trainer_code.statements import parsed
from tuner.units import MIB

if TYPE_CHECKING:
    import ast

_NAME = "verl"
_MOST_FILES = 100
_MOST_OF_FILE = 4 * MIB
_parsed = lru_cache(maxsize=256)(parsed)


class ProjectCode:
    """The files that a program is made of, its own first.

    Args:
        base: the folder below which their paths are told.
        files: by what they import.
    """

    def __init__(self, base: Path, files: dict[Path, tuple[ProjectImport, ...]]) -> None:
        self.name = base.name
        self._base = base
        self._files = files
        self._read = PythonFiles(map(str, files), base)

    def of_trainer(self) -> Iterator[tuple[Path, ProjectImport]]:
        """What its files import of the trainer's package, what is surely imported first."""
        pairs = [
            (file, one)
            for file, imports in self._files.items()
            for one in imports
            if not one.level and one.module.partition(".")[0] == _NAME
        ]
        yield from (pair for pair in pairs if pair[1].eager)
        yield from (pair for pair in pairs if not pair[1].eager)

    def lines(self, words: Iterable[str], file: str = "", *, stops: bool = False) -> tuple[CodeLine, ...]:
        """The statements that have all of these words in them or around them.

        Args:
            words: names, or words of texts.
            file: what stands in the path of the file.
            stops: only assertions and raised errors.
        """
        wanted = frozenset(words)
        return tuple(
            CodeLine(file=name, line=statement.line)
            for name, text in self._read.texts.items()
            if file in name and all(word in text for word in wanted)
            for statement in self._read.statements_of(name)
            if wanted <= statement.words and (statement.stops or not stops)
        )

    def trees(self, word: str) -> "Iterator[ast.Module]":
        """The syntax trees of the files that have a word."""
        for text in self._read.texts.values():
            tree = _parsed(text) if word in text else None
            if tree is not None:
                yield tree

    def defines(self, name: str) -> bool:
        """Whether one of the files has a class of a name."""
        return any(f"class {name}" in text for text in self._read.texts.values())


def project_code(program: str, starts: Sequence[Path], words: Collection[str]) -> ProjectCode | None:
    """The code of a program that is the project's own; None where its file is not in the tree.

    Args:
        program: a module, or the path of a file.
        starts: the folders from which it may be meant, and in which Python looks.
        words: the texts among the values of the launch, by which conditions are decided.
    """
    file = file_of_program(program, starts) if program else None
    if file is None:
        return None
    places = (file.parent, *starts)
    files: dict[Path, tuple[ProjectImport, ...]] = {}
    waiting = [file]
    while waiting and len(files) < _MOST_FILES:
        path = waiting.pop(0)
        if path in files:
            continue
        files[path] = imports = tuple(_imports(path, words, is_program=path == file))
        for one in imports:
            if one.level or one.module.partition(".")[0] != _NAME:
                waiting += files_of(one, path, places)
    base = next((start for start in reversed(starts) if file.is_relative_to(start)), file.parent)
    return ProjectCode(base, {path: one for path, one in files.items() if path.is_relative_to(base)})


def _imports(file: Path, words: Collection[str], *, is_program: bool) -> Iterator[ProjectImport]:
    try:
        text = read_bytes(file, most=_MOST_OF_FILE).decode("utf-8", errors="replace")
    except TunerError:
        return
    tree = _parsed(text)
    if tree is not None:
        yield from imports_of(tree, words, is_program=is_program)
