"""Finds the copy of the trainer that a launch would run, from the folder that it lies in."""

import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import TunerError
from tuner.files import is_there, is_top_of_repository, read_bytes, repository_folders

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

_BESIDE = ("recipe", "recipes")  # whose programs are the trainer's, with losses and trainers of their own

#: The files of the trainer's program, whose imports tell what else of the repository is run with it.
_PROGRAM = ("trainer/main_ppo.py", "trainer/ppo/ray_trainer.py")
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)", re.MULTILINE)
_MOST_OF_FILE = 4 << 20  # bytes
_INSTALLED = ("site-packages", "dist-packages")  # what lies beside a package there belongs to anybody
_NAME = "verl"
_CONFIGURATIONS = ("trainer", "config")  # the folders of a copy that hold them
_OF_PROJECT = "setup.py"
#: Files of which the top of a repository has one of each line.
_OF_TOP = (
    ("README.md", "README.rst", "README.txt", "README"),
    (".gitignore", ".gitattributes", "LICENSE", "LICENSE.txt", "LICENSE.md"),
)
_LEVELS = 3  # below the top of a repository, in which a copy in a subfolder is looked for
_MOST_FOLDERS = 400  # that are looked into
_STARTS = (
    ".git",
    _OF_PROJECT,
)  # beside what a launch finds: it starts at the top, or pip installs what is here
_INSTALLS = re.compile(r"^\s*(?:name|packages|include)\b.*\bverl\b", re.MULTILINE)  # in a pyproject.toml
_PARTS = (
    "trainer",
    "workers",
    "utils",
)  # folders of the package, which Python finds without an __init__.py too
_OTHERS = frozenset({*_INSTALLED, "node_modules", "__pycache__"})  # hold what others have published
_OF_PROJECTS = (".git", ".gitmodules", "pyproject.toml", "setup.py", *_OF_TOP[0])  # the top of one has any

PackagesBelow = Callable[[Path], list[Path]]
"""What finds the copies of the trainer in the subfolders of a repository, such as :func:`packages_below`."""


def code_of_package(root: Path) -> "TrainerCode | None":
    """The copy of the trainer in a folder; None where that is no package.

    An empty folder is one whose files nobody fetched: it is a copy of which nothing is known.
    """
    if not is_package(root):
        return None
    from tuner.trainers.verl.trainer_code.package import TrainerCode  # most launches lie in none

    names = () if root.parent.name in _INSTALLED else dict.fromkeys((*_BESIDE, *_imported(root)))
    beside = (root.parent / name for name in names)
    return TrainerCode(root, [folder for folder in beside if is_there(folder, Path.is_dir)])


def _imported(root: Path) -> Iterator[str]:
    """The packages that the program of a copy imports, without the copy itself.

    Those that lie beside it belong to it, such as ``agent_system`` of verl-agent, which has its rollout.
    """
    for name in _PROGRAM:
        if not is_there(root / name, Path.is_file):
            continue
        try:
            text = read_bytes(root / name, most=_MOST_OF_FILE).decode("utf-8", errors="replace")
        except TunerError:
            continue
        yield from (package for package in _IMPORT.findall(text) if package not in (root.name, _NAME))


def is_package(root: Path) -> bool:
    """Whether a folder is a Python package, or will be one: a submodule's folder is empty before.

    Configurations that lie in folders named as verl's are none: Python takes the package that is installed,
    and Hydra the configurations beside its program.
    """
    if not is_there(root, Path.is_dir) or _is_checkout(root):
        return False
    return (holds_code(root) and _is_imported(root)) or not any(root.iterdir())


def _is_imported(root: Path) -> bool:
    """Whether a folder with code in it is what Python would import, and no folder of the project's own.

    What a project adds for its runs often lies in ``examples/verl`` or ``script/verl``, which is on no path
    where the launch starts at the repository's top: without a trainer in it, it is taken for the package only
    where it lies at a top or beside what installs it, and has something of a package.
    """
    if is_there(root / "trainer", Path.is_dir):
        return True
    if not _is_on_path(root.parent):
        return False
    return is_there(root / "__init__.py", Path.is_file) or any(
        is_there(root / part, Path.is_dir) for part in _PARTS
    )


def _is_on_path(place: Path) -> bool:
    """Whether Python looks into a folder without a launch that says so: a top, or what pip installs from."""
    if _has(place, _STARTS) or all(map(partial(_has, place), _OF_TOP)):
        return True
    file = place / "pyproject.toml"
    if not is_there(file, Path.is_file):
        return False
    try:
        text = read_bytes(file, most=_MOST_OF_FILE).decode("utf-8", errors="replace")
    except TunerError:
        return False
    return _INSTALLS.search(text) is not None


def _is_checkout(root: Path) -> bool:
    """Whether a folder is the trainer's repository, which has the package in it.

    Its ``setup.py`` is no code of a package.
    """
    return not is_there(root / "__init__.py", Path.is_file) and is_there(
        root / _NAME / "trainer", Path.is_dir
    )


def has_checkout(folder: Path) -> bool:
    """Whether a folder is a project with the trainer's repository in it, and none beside which a clone lies.

    An archive of a project has no ``.git``, and a folder in which somebody keeps clones no ``README``.
    """
    if is_there(folder / _NAME / ".git", Path.is_dir):
        return False
    return _has(folder, _OF_PROJECTS)


def _packages_at(place: Path) -> Iterator[Path]:
    """Where the package lies in a folder: by its name, or in the repository of its name."""
    yield place / _NAME
    if _is_checkout(place / _NAME) and has_checkout(place):
        yield place / _NAME / _NAME


def holds_code(root: Path) -> bool:
    """Whether a folder has the code of a package: its own, or that of one of its parts."""
    parts = ("trainer", "trainer/ppo", "workers", "third_party/vllm")
    return _has_python(root) or any(_has_python(root / part) for part in parts)


def code_around(folder: Path, below: "PackagesBelow | None" = None) -> "TrainerCode | None":
    """The copy of the trainer in whose repository a folder lies; None where it lies in none.

    A clone beside the repository is no part of it.
    """
    own = _package_of_configurations(folder)
    if own is not None:
        return code_of_package(own)
    above = (code_of_package(root) for place in repository_folders(folder) for root in _packages_at(place))
    code = next((code for code in above if code is not None), None)
    if code is not None:
        return code
    packages = (below or packages_below)(folder)
    return code_of_package(packages[0]) if len(packages) == 1 else None


def _package_of_configurations(folder: Path) -> Path | None:
    """The copy whose configurations lie in a folder, whatever it is called; None where that has no code."""
    if folder.parts[-2:] != _CONFIGURATIONS or not holds_code(folder.parent.parent):
        return None
    return folder.parent.parent


def packages_below(folder: Path) -> list[Path]:
    """The copies of the trainer in the subfolders of a repository, in the order of their names.

    Which of several a launch runs depends on what is installed, which nobody says. None where a copy lies
    beside the folder or above it, which comes before them, or where there are so many folders that not all
    are looked into.
    """
    above = list(repository_folders(folder))
    highest = _top(above)
    if any(is_package(place / _NAME) for place in above):
        return []
    return list(_unpacked(folder) if highest is None else _packages_in(str(highest), _has_trainer))


def _unpacked(folder: Path) -> Iterator[Path]:
    """The copies in unpacked releases beside a launch, ``verl-release-v0.7.0``, where nothing marks a top."""
    for name in _names(str(folder)):
        package = folder / name / _NAME
        unpacked = name.startswith(f"{_NAME}-") and not is_top_of_repository(package.parent)
        if unpacked and _has_trainer(str(package)):
            yield package


def copies_in_tree(folder: Path) -> list[Path]:
    """All copies of the trainer in the repository of a folder, whatever they are called."""
    highest = _top(list(repository_folders(folder)))
    return [] if highest is None else list(_packages_in(str(highest), _has_configurations))


def _packages_in(top: str, is_copy: Callable[[str], bool]) -> Iterator[Path]:
    """The packages in the subfolders of a repository; none where there are too many folders."""
    packages: list[str] = []
    folders, looked_into = [top], 0
    for _level in range(_LEVELS):
        inner: list[str] = []
        for place in folders:
            names = _names(place)
            if place != top and ".git" in names and is_top_of_repository(Path(place)):
                continue
            looked_into += 1
            if looked_into > _MOST_FOLDERS:
                return
            subfolders = [f"{place}/{name}" for name in names if _is_own(name)]
            copies = list(filter(is_copy, subfolders))
            inner += [subfolder for subfolder in subfolders if subfolder not in copies]
            packages += [copy for copy in copies if not is_top_of_repository(Path(copy))]
        folders = inner
    yield from map(Path, packages)


def _top(above: list[Path]) -> Path | None:
    """The top of the repository that folders end with; None where nothing marks one.

    An archive of a repository has no ``.git``: its top is the highest folder with what such a folder has.
    """
    if is_top_of_repository(above[-1]):
        return above[-1]
    return next((folder for folder in reversed(above) if all(map(partial(_has, folder), _OF_TOP))), None)


def _has(folder: Path, names: tuple[str, ...]) -> bool:
    """Whether a folder has something of one of these names, in letters of whatever size."""
    try:
        with os.scandir(folder) as entries:
            return not {name.lower() for name in names}.isdisjoint(entry.name.lower() for entry in entries)
    except OSError:
        return False


def _has_configurations(folder: str) -> bool:
    """Whether a folder is a copy of the trainer under any name."""
    return is_there(f"{folder}/trainer/config", Path.is_dir) and holds_code(Path(folder))


def _has_trainer(folder: str) -> bool:
    named = folder.endswith(f"/{_NAME}") and is_there(f"{folder}/trainer", Path.is_dir)
    return named and holds_code(Path(folder))


def _has_python(folder: Path) -> bool:
    """Whether a folder holds a file of Python that belongs to a package.

    A ``setup.py`` lies beside the package that it installs, in a project that may bear the package's name.
    """
    if not is_there(folder, Path.is_dir):
        return False
    return any(file.suffix == ".py" and file.name != _OF_PROJECT for file in folder.iterdir())


def _is_own(name: str) -> bool:
    """Whether what lies in a folder of this name is part of the repository."""
    return not name.startswith(".") and name not in _OTHERS


def _names(folder: str) -> list[str]:
    """The names of the folders in a folder and of its ``.git``, which may be a file, in their order."""
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name for entry in entries if entry.name == ".git" or entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []
