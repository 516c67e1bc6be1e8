"""Finds the copy of the trainer that a launch would run, from the folder that it lies in."""

from pathlib import Path

from tuner.files import is_there
from tuner.trainers.verl.trainer_code.package import TrainerCode

_FOLDERS_UP = 8
_BESIDE = ("recipe", "recipes")  # whose programs are the trainer's, with losses and trainers of their own
_TELLING = ("trainer", "workers")  # folders of the package


def code_of_package(root: Path) -> TrainerCode | None:
    """The copy of the trainer in a folder; None where that holds no package of it."""
    if not all(is_there(root / name, Path.is_dir) for name in _TELLING):
        return None
    return TrainerCode(
        root, [root.parent / name for name in _BESIDE if is_there(root.parent / name, Path.is_dir)]
    )


def code_around(folder: Path) -> TrainerCode | None:
    """The copy of the trainer in whose repository a folder lies; None where it lies in none.

    A clone beside the repository is no part of it.
    """
    for above in (folder, *list(folder.parents)[:_FOLDERS_UP]):
        code = code_of_package(above / "verl")
        if code is not None or is_there(above / ".git"):
            return code
    return None
