"""The modules of a project of its own that its program runs, where the trainer's package lies elsewhere.

Its workers, rollout and trainer may be copies of the trainer's that were changed: what a release does in such
a module says nothing of them. Nothing is imported or run.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import TunerError
from tuner.files import read_bytes
from tuner.inputs.program.find import file_of_program
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
        sure: those that it runs whatever open conditions come to.
    """

    def __init__(
        self, base: Path, files: dict[Path, tuple[ProjectImport, ...]], sure: frozenset[Path]
    ) -> None:
        self._base = base
        self._files, self._sure = files, sure
        self._read = PythonFiles(map(str, files), base)

    def __reduce__(self) -> tuple[object, ...]:
        """Another process reads it for itself."""
        return type(self), (self._base, self._files, self._sure)

    def of_trainer(self) -> Iterator[tuple[Path, ProjectImport]]:
        """What its files import of the trainer's package, what is surely imported first."""
        pairs = [
            (file, one)
            for file, imports in self._files.items()
            for one in imports
            if file in self._sure and one.sure and not one.level and one.module.partition(".")[0] == _NAME
        ]
        yield from (pair for pair in pairs if pair[1].eager)
        yield from (pair for pair in pairs if not pair[1].eager)

    def has(self, words: str, file: str, *, stops: bool = False) -> bool | None:
        """Whether the project's own module of a kind has a statement with some words; None without such one.

        A module that rests on one of the trainer's of that kind is none.

        Args:
            words: names, or words of texts, in the statement or around it.
            file: what stands in the names of such modules.
            stops: only assertions and raised errors count.
        """
        wanted, known = frozenset(words.split()), False
        for path, rests in self._modules_of(file):
            if rests:
                return None
            known = True
            if any(
                wanted <= statement.words and (statement.stops or not stops)
                for statement in self._read.statements_of(path)
            ):
                return True
        return False if known else None

    @property
    def texts(self) -> Mapping[str, str]:
        """The content of each of its files by its path below the base."""
        return self._read.texts

    def trees(self, file: str) -> "list[ast.Module]":
        """The syntax trees of the project's own modules of a kind that are surely run."""
        sure = {path.relative_to(self._base).as_posix() for path in self._sure}
        trees = (_parsed(self._read.texts[path]) for path, _rests in self._modules_of(file) if path in sure)
        return [tree for tree in trees if tree is not None]

    def _modules_of(self, file: str) -> Iterator[tuple[str, bool]]:
        """The modules of a kind, and whether each rests on one of the trainer's of that kind."""
        for path, imports in self._files.items():
            name = path.relative_to(self._base).as_posix()
            if file in path.name and name in self._read.texts:
                theirs = (one.module.split(".") for one in imports if not one.level)
                yield name, any(parts[0] == _NAME and file in parts[-1] for parts in theirs)


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
    base = next((start for start in reversed(starts) if file.is_relative_to(start)), file.parent)
    places = (file.parent, *starts)
    files: dict[Path, tuple[ProjectImport, ...]] = {}
    sure, waiting, open_ones = {file}, [file], list[Path]()
    while (waiting or open_ones) and len(files) < _MOST_FILES:
        path = waiting.pop(0) if waiting else open_ones.pop(0)
        if path in files or not path.is_relative_to(base):
            continue
        files[path] = tuple(_imports(path, words, is_program=path == file))
        for one in files[path]:
            if not one.level and one.module.partition(".")[0] == _NAME:
                continue
            imported = list(files_of(one, path, places))
            if path in sure and one.sure:
                sure.update(imported)
                waiting += imported
            else:
                open_ones += imported
    return ProjectCode(base, files, frozenset(sure & set(files)))


def _imports(file: Path, words: Collection[str], *, is_program: bool) -> Iterator[ProjectImport]:
    try:
        text = read_bytes(file, most=_MOST_OF_FILE).decode("utf-8", errors="replace")
    except TunerError:
        return
    tree = _parsed(text)
    if tree is not None:
        yield from imports_of(tree, words, is_program=is_program)
