"""The copy of verl that a launch imports because its script puts it under verl's name.

``ln -sfn old_verl path/verl`` with ``PYTHONPATH=path``: another copy beside the launch is not what runs.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from tuner.files import is_there, repository_folders
from tuner.inputs.placed_packages import PlacedPackage
from tuner.inputs.program.find import starting_folders
from tuner.trainers.verl.trainer_code.find import is_package

_NAME = "verl"
_HERE = "."


class ImportedCopy(Struct, frozen=True, kw_only=True):
    """A package that is imported as ``verl``."""

    package: Path
    certain: bool  # no branch of the script that nobody knows leads to it


def imported_copy(
    placed: Sequence[PlacedPackage], folder: str, folders: Sequence[str] = ()
) -> ImportedCopy | None:
    """The package that is imported as ``verl``; None where the script puts none there.

    Args:
        placed: what the script puts where Python looks, what it comes to first before the others.
        folder: in which the launch lies; empty where nobody says.
        folders: that the launch starts the program in, and has Python look for modules in.
    """
    starts = starting_folders(folder, folders)
    for one in placed:
        if one.name not in ("", _NAME) or not (one.listed or _is_around(one.folder, folder)):
            continue
        if any(_is_regular(Path(above) / _NAME) for above in one.ahead):
            continue
        for place in _places(one.source, starts):
            package = place if one.name else place / _NAME
            if is_there(package / "trainer", Path.is_dir) and is_package(package):
                return ImportedCopy(package=package, certain=one.certain)
    return None


def program_of_copy(program: str, package: Path | None) -> str:
    """The program as a file of the copy, where it is one of verl's own; else as it is.

    Args:
        program: a module, or the path of a file.
        package: what is imported as ``verl``.
    """
    if package is None or not program.startswith(f"{_NAME}.") or program.endswith(".py"):
        return program
    return str(package.joinpath(*program.split(".")[1:]).with_suffix(".py"))


def _is_around(place: str, folder: str) -> bool:
    """Whether a launch that says not where it is started may be started in a folder."""
    if place == _HERE:
        return True
    return bool(folder) and Path(place) in repository_folders(Path(folder).absolute())


def _is_regular(package: Path) -> bool:
    """Whether a folder comes before any other package of its name: without this file it comes last."""
    return is_there(package / "__init__.py", Path.is_file)


def _places(source: str, starts: Sequence[Path]) -> Iterator[Path]:
    """Where a folder may lie that a script names: the longest known end of its path first."""
    if source.startswith("/"):
        yield Path(source)
    parts = [part for part in source.split("/") if part]
    first = max((number + 1 for number, part in enumerate(parts) if "$" in part), default=0)
    for number in range(first, len(parts)):
        yield from (start.joinpath(*parts[number:]) for start in starts)
        if not source.startswith("/"):
            return
