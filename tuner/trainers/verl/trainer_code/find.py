"""Finds the copy of the trainer that a launch would run, from the folder that it lies in."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.files import is_there, is_top_of_repository, repository_folders

if TYPE_CHECKING:
    from tuner.trainers.verl.trainer_code.package import TrainerCode

_BESIDE = ("recipe", "recipes")  # whose programs are the trainer's, with losses and trainers of their own

_INSTALLED = ("site-packages", "dist-packages")  # what lies beside a package there belongs to anybody
_NAME = "verl"
_LEVELS = 3  # below the top of a repository, in which a copy in a subfolder is looked for
_MOST_FOLDERS = 400  # that are looked into
_OTHERS = frozenset({*_INSTALLED, "node_modules", "__pycache__"})  # hold what others have published


def code_of_package(root: Path) -> "TrainerCode | None":
    """The copy of the trainer in a folder; None where that is no package.

    An empty folder is one whose files nobody fetched: it is a copy of which nothing is known.
    """
    if not is_package(root):
        return None
    from tuner.trainers.verl.trainer_code.package import TrainerCode  # most launches lie in none

    beside = () if root.parent.name in _INSTALLED else (root.parent / name for name in _BESIDE)
    return TrainerCode(root, [folder for folder in beside if is_there(folder, Path.is_dir)])


def is_package(root: Path) -> bool:
    """Whether a folder is a Python package, or will be one: a submodule's folder is empty before.

    Configurations that lie in folders named as verl's are none: Python takes the package that is installed,
    and Hydra the configurations beside its program.
    """
    if not is_there(root, Path.is_dir):
        return False
    return holds_code(root) or not any(root.iterdir())


def holds_code(root: Path) -> bool:
    """Whether a folder has the code of a package: its own, or that of its trainer."""
    return is_there(root / "__init__.py") or _has_python(root / "trainer")


def code_around(folder: Path) -> "TrainerCode | None":
    """The copy of the trainer in whose repository a folder lies; None where it lies in none.

    A clone beside the repository is no part of it.
    """
    above = (code_of_package(place / _NAME) for place in repository_folders(folder))
    code = next((code for code in above if code is not None), None)
    if code is not None:
        return code
    package = package_below(folder)
    return None if package is None else code_of_package(package)


def package_below(folder: Path) -> Path | None:
    """The only copy of the trainer in the subfolders of a repository; None where there are several, or none.

    Which of several a launch runs depends on what is installed, which nobody says.
    """
    packages = packages_below(folder)
    return packages[0] if len(packages) == 1 else None


def packages_below(folder: Path) -> list[Path]:
    """The copies of the trainer in the subfolders of a repository, in the order of their names.

    None where a copy lies beside the folder or above it, which comes before them, or where there are so many
    folders that not all are looked into.
    """
    above = list(repository_folders(folder))
    if not is_top_of_repository(above[-1]) or any(is_package(place / _NAME) for place in above):
        return []
    packages: list[Path] = []
    folders, looked_into = [above[-1]], 0
    for _level in range(_LEVELS):
        inner: list[Path] = []
        for place in folders:
            looked_into += 1
            if looked_into > _MOST_FOLDERS:
                return []
            for subfolder in _subfolders(place):
                (packages if _has_trainer(subfolder) else inner).append(subfolder)
        folders = inner
    return packages


def _has_trainer(folder: Path) -> bool:
    return folder.name == _NAME and is_there(folder / "trainer", Path.is_dir) and holds_code(folder)


def _has_python(folder: Path) -> bool:
    """Whether a folder holds a file of Python."""
    if not is_there(folder, Path.is_dir):
        return False
    return any(file.suffix == ".py" for file in folder.iterdir())


def _subfolders(folder: Path) -> list[Path]:
    """The folders in a folder that are part of its repository, in the order of their names."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    own = (folder / name for name in names if not name.startswith(".") and name not in _OTHERS)
    return [place for place in own if not is_top_of_repository(place)]
