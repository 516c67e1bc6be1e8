"""Finds the copy of the trainer that a launch would run, from the folder that it lies in."""

import os
from collections.abc import Callable
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

PackageBelow = Callable[[Path], Path | None]
"""What finds the copy of the trainer in the subfolders of a repository, such as :func:`package_below`."""


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
    """Whether a folder is a Python package, or will be one: a submodule's folder is empty before."""
    if not is_there(root, Path.is_dir):
        return False
    return any(is_there(root / name) for name in ("__init__.py", "trainer")) or not any(root.iterdir())


def code_around(folder: Path, below: "PackageBelow | None" = None) -> "TrainerCode | None":
    """The copy of the trainer in whose repository a folder lies; None where it lies in none.

    A clone beside the repository is no part of it.
    """
    above = (code_of_package(place / _NAME) for place in repository_folders(folder))
    code = next((code for code in above if code is not None), None)
    if code is not None:
        return code
    package = (below or package_below)(folder)
    return None if package is None else code_of_package(package)


def package_below(folder: Path) -> Path | None:
    """The only copy of the trainer in the subfolders of a repository; None where there are several, or none.

    Which of several a launch runs depends on what is installed, which nobody says. A copy that lies beside
    the folder or above it comes before all others.
    """
    above = list(repository_folders(folder))
    if not is_top_of_repository(above[-1]) or any(is_package(place / _NAME) for place in above):
        return None
    top = str(above[-1])
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
                return None
            subfolders = [f"{place}/{name}" for name in names if _is_own(name)]
            inner += [subfolder for subfolder in subfolders if not _has_trainer(subfolder)]
            packages += [subfolder for subfolder in subfolders if _is_package_of(subfolder)]
        if len(packages) > 1:
            return None
        folders = inner
    return Path(packages[0]) if packages else None


def _is_package_of(folder: str) -> bool:
    """Whether a folder is a copy of the trainer, and no repository of its own."""
    return _has_trainer(folder) and not is_top_of_repository(Path(folder))


def _has_trainer(folder: str) -> bool:
    return folder.endswith(f"/{_NAME}") and is_there(f"{folder}/trainer", Path.is_dir)


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
