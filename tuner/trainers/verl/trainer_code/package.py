"""The Python files of a copy of the trainer, searched as text and parsed where that decides something.

A fork holds other code than the release whose number it carries, so what a check says of a release is
looked for in the copy that a launch would run. Nothing is imported or run. Text is searched before anything
is parsed: parsing all files of a release takes a second, and the few that decide take a fraction of it.
"""

import os
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.errors import TunerError
from tuner.files import note, read_bytes
from tuner.units import MIB

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.statements import Statement

_MOST_FILES = 4_000  # 0.9.1 has 359
_MOST_BYTES = 64 * MIB  # of all files; those of 0.9.1 have 4.5 MiB
_MOST_OF_FILE = 4 * MIB
_NO_CODE = frozenset(
    {"tests", "docs", "docker", "node_modules", "site-packages", "third_party", "__pycache__"}
)
_STRING = re.compile(r"""["']([\w.+-]+)["']""")
_TRAINER = "trainer"  # the folder of the package that holds the programs
_KEPT = 2  # copies that are not read again for every input


class CodeLine(Struct, frozen=True, kw_only=True):
    """A line of a copy of the trainer."""

    file: str  # below the folder that holds the package, with slashes
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class TrainerCode:
    """A copy of the trainer's package, read when something is first asked of it.

    Args:
        root: the folder of the package, such as ``verl`` of a checkout.
        beside: further folders whose files belong to it, such as ``recipe``.
    """

    def __init__(self, root: Path, beside: Iterable[Path] = ()) -> None:
        self.root = root
        self._folders = (root, *beside)

    def __reduce__(self) -> tuple[object, ...]:
        """Another process reads it for itself, if it has to."""
        return type(self), (self.root, self._folders[1:])

    @property
    def name(self) -> str:
        """What it is called in messages: its folder and the one that holds it."""
        return f"{self.root.parent.name}/{self.root.name}"

    @property
    def has_trainer(self) -> bool:
        """Whether the code that trains is here: of a submodule that nobody fetched it is not."""
        return any(f"/{_TRAINER}/" in name for name in self._files.texts)

    def lines(
        self, words: Iterable[str], *, lacks: Iterable[str] = (), stops: bool = True, file: str = ""
    ) -> tuple[CodeLine, ...]:
        """The statements that have all of these words in them or around them.

        Args:
            words: names, or words of texts.
            lacks: words that none of them has.
            stops: only assertions and raised errors.
            file: what stands in the path of the file.
        """
        wanted, unwanted = frozenset(words), frozenset(lacks)
        return tuple(
            CodeLine(file=name, line=statement.line)
            for name, text in self._files.texts.items()
            if file in name and all(word in text for word in wanted)
            for statement in self._files.statements_of(name)
            if wanted <= statement.words and unwanted.isdisjoint(statement.words)
            if statement.stops or not stops
        )

    def has_literal(self, value: str) -> bool:
        """Whether some file has this text as a string: registers it, compares with it or lists it."""
        return value in self._files.literals

    def names(self, word: str) -> bool:
        """Whether some file has this word, as a name or in a text: what is never named is never read."""
        pattern = re.compile(rf"\b{re.escape(word)}\b")
        return any(word in text and pattern.search(text) for text in self._files.texts.values())

    @cached_property
    def _files(self) -> "_Files":
        written = tuple(_written(self._folders))
        note(name for name, _time in written)
        known = _files_read.pop(self._folders, None)
        if known is None or known[0] != written:
            known = written, _Files([name for name, _time in written], self.root.parent)
        if len(_files_read) >= _KEPT:
            del _files_read[next(iter(_files_read))]
        _files_read[self._folders] = known
        return known[1]


class _Files:
    """The files of a copy as they were at one time."""

    def __init__(self, names: Iterable[str], base: Path) -> None:
        self.texts = dict(_texts(names, base))  # by the path below the folder that holds the package
        self._statements: dict[str, tuple[Statement, ...]] = {}

    @cached_property
    def literals(self) -> frozenset[str]:
        """Every short text that some file has as a string."""
        return frozenset(word for text in self.texts.values() for word in _STRING.findall(text))

    def statements_of(self, name: str) -> "tuple[Statement, ...]":
        """The statements of one file; none of what is no Python."""
        from tuner.trainers.verl.trainer_code.statements import parsed, statements  # few launches ask

        if name not in self._statements:
            tree = parsed(self.texts[name])
            self._statements[name] = () if tree is None else tuple(statements(tree))
        return self._statements[name]


#: The copies that were read latest, with the times at which their files had been written.
_files_read: dict[tuple[Path, ...], tuple[tuple[tuple[str, int], ...], _Files]] = {}


def _texts(names: Iterable[str], base: Path) -> Iterator[tuple[str, str]]:
    left = _MOST_BYTES
    for name in names:
        try:
            data = read_bytes(Path(name), most=_MOST_OF_FILE)
        except TunerError:
            continue
        left -= len(data)
        if left < 0:
            return
        yield Path(name).relative_to(base).as_posix(), data.decode("utf-8", errors="replace")


def _written(folders: Iterable[Path]) -> Iterator[tuple[str, int]]:
    """The Python files of some folders, and when each was written last."""
    left = _MOST_FILES
    for folder in folders:
        for above, below, names in os.walk(folder):
            below[:] = sorted(name for name in below if name not in _NO_CODE and name[0] != ".")
            for name in sorted(names):
                if name.endswith(".py") and left:
                    left -= 1
                    file = Path(above, name)
                    yield str(file), file.lstat().st_mtime_ns
