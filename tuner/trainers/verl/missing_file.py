"""Whether a file that a launch names in its own repository is missing there, beside others that are not.

From where a launch is started nobody says for sure: the folder of the script, those that it goes to and those
above are all looked into, and two levels below them. What is ignored by git may be made by a program.
"""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from tuner.errors import InputError
from tuner.files import is_there, read_bytes
from tuner.units import MIB

_TOP = (".git", ".gitmodules", "pyproject.toml", "setup.py")  # the top of a repository has one of them
_LEVELS_UP, _LEVELS_DOWN = 8, 2
_MOST_FOLDERS = 1000  # that are looked into


def is_missing(named: str, *, folder: str, starts: Sequence[str]) -> bool:
    """Whether a file is nowhere that its launch may look, in a tree that has others beside it.

    Args:
        named: its path, as the launch has it.
        folder: in which the launch lies.
        starts: folders that the script starts the program in.
    """
    path = Path(named)
    here = Path(folder).absolute()
    tops = [top for top in (here, *list(here.parents)[:_LEVELS_UP]) if any(is_there(top / it) for it in _TOP)]
    if not tops or path.suffix != ".py" or any(sign in named for sign in ("$", "://", "*", "~", "..")):
        return False
    top = tops[-1]
    if path.is_absolute():
        if top not in path.parents:
            return False
        path = path.relative_to(top)
    if not path.parent.parts:
        return False  # what lies in the folder itself may be any folder's
    above = [start for start in (here, *here.parents) if start == top or top in start.parents]
    places = list(dict.fromkeys([*(Path(start).absolute() for start in starts), *above, *_below(top)]))
    if len(places) > _MOST_FOLDERS or any(is_there(place / path) for place in places):
        return False
    around = [place for place in places if top == place or top in place.parents]
    beside = any(_has_modules(place / path.parent) for place in around)
    return beside and not any(_is_ignored(place, path) for place in around)


def is_only_named(name: str, source: str) -> bool:
    """Whether a script names a file on one line alone, so that it does not make it first.

    Args:
        name: of the file, without its folders.
        source: the script; what is typed is no file.
    """
    script = Path(source)
    if not is_there(script, Path.is_file):
        return True
    try:
        text = read_bytes(script, most=MIB).decode("utf-8", "replace")
    except InputError:
        return False
    return sum(name in line for line in text.splitlines() if not line.lstrip().startswith("#")) == 1


def _below(top: Path) -> Iterator[Path]:
    """The folders of a repository, as deep as a launch may go."""
    level = [top]
    for _level in range(_LEVELS_DOWN):
        level = [folder for parent in level for folder in _folders(parent)]
        yield from level


def _folders(parent: Path) -> list[Path]:
    try:
        with os.scandir(parent) as entries:
            return sorted(
                Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")
            )
    except OSError:
        return []


def _has_modules(folder: Path) -> bool:
    """Whether a folder is there and holds code: one that nobody fetched is empty."""
    return is_there(folder, Path.is_dir) and any(True for _file in folder.glob("*.py"))


def _is_ignored(place: Path, path: Path) -> bool:
    """Whether git ignores the file, or a folder that it lies in, by a list in some folder above it."""
    for depth in range(len(path.parts)):
        start = place.joinpath(*path.parts[:depth])
        try:
            lines = read_bytes(start / ".gitignore", most=MIB).decode("utf-8", "replace").splitlines()
        except (InputError, OSError):
            continue
        below = path.parts[depth:]
        names = {*below, *("/".join(below[: end + 1]) for end in range(len(below)))}
        patterns = [line.strip().strip("/") for line in lines if line.strip() and line[0] not in "#!"]
        if any(fnmatch(name, pattern) for name in names for pattern in patterns):
            return True
    return False
