"""Finds the files of a program and of what it names, in the tree that a launch lies in."""

from collections.abc import Iterator, Sequence
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from tuner.files import is_there, repository_folders

if TYPE_CHECKING:
    from tuner.inputs.program.hydra import PrimaryConfig, ReadProgram

_MOST_CALLS = 8  # functions of other modules that are looked at
_MOST_ENTRIES = 10_000  # of a tree in which a configuration is looked for
_LEAST_FOLDERS = 1  # before the name of a file that are enough to tell it in the tree
_RECIPES = "recipe"  # a repository of its own, which may lie under another name


class ProgramFile(Struct, frozen=True, kw_only=True):
    """The file of a program, and the configuration that its code names; None where that is not known."""

    file: Path
    config: "PrimaryConfig | None"


def starting_folders(folder: str, named: Sequence[str] = ()) -> tuple[Path, ...]:
    """Where a launch may be started: in the folders that it names, beside it and above it, or here.

    Args:
        folder: that the launch lies in; empty where nobody says.
        named: what it changes to, and where it has Python look for modules.
    """
    here = Path(folder).absolute() if folder else Path.cwd()
    above = list(repository_folders(here))
    places = [Path.cwd() / name for name in named]
    return tuple(dict.fromkeys((*places, *above, Path.cwd())))


def program_file(program: str, starts: Sequence[Path]) -> ProgramFile | None:
    """The program that a launch starts, where its file is in the tree.

    Args:
        program: a module, or the path of a file.
        starts: the folders from which it may be meant.
    """
    file = file_of_program(program, starts)
    if file is None:
        return None
    from tuner.inputs.program.hydra import read_program  # few programs are in the tree of their launch

    read = read_program(file)
    if read.config is not None or not read.calls:
        return ProgramFile(file=file, config=read.config)
    return _called(read, starts) or ProgramFile(file=file, config=None)


def _called(read: "ReadProgram", starts: Sequence[Path]) -> ProgramFile | None:
    """The file of another module whose function a program calls that gets the configuration."""
    from tuner.inputs.program.hydra import read_program

    for module, function in read.calls[:_MOST_CALLS]:
        file = file_of_program(module, starts)
        config = None if file is None else read_program(file).config
        if file is not None and config is not None and config.function == function:
            return ProgramFile(file=file, config=config)
    return None


def file_of_program(program: str, starts: Sequence[Path]) -> Path | None:
    """The file of a module, or of a path; None where the tree has none."""
    if program.endswith(".py") or "/" in program:
        name = _known_end(program)
        names = [name, *_below_clone(name)] if name else []
    else:
        names = list(_files_of_module(program))
    files = (start / name for name in names for start in starts)
    return next((file for file in files if is_there(file, Path.is_file)), None)


def _below_clone(path: str) -> Iterator[str]:
    """The ends of a path to somebody's own clone, which may lie in the tree: the longest first."""
    if path.startswith("/") and not is_there(path):
        parts = path.strip("/").split("/")
        for first in range(1, len(parts) - _LEAST_FOLDERS):
            yield "/".join(parts[first:])


def _files_of_module(module: str) -> Iterator[str]:
    """Where a module's file lies: in the folder of its package, whose repository may have another name."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return
    for start in (0, 1) if parts[0] == _RECIPES and len(parts) > 2 else (0,):
        path = "/".join(parts[start:])
        yield f"{path}.py"
        yield f"{path}/__main__.py"


def config_folders(program: ProgramFile, option: str | None, starts: Sequence[Path]) -> tuple[Path, ...]:
    """Where Hydra looks for the program's configuration; none where only a run would tell.

    Args:
        program: that is started.
        option: what the launch gives in place of the path in the code.
        starts: the folders from which packages may be meant.
    """
    path = option
    if path is None and program.config is not None:
        path = program.config.path
    if path is None:
        return ()
    if path.startswith("pkg://"):
        package = path.removeprefix("pkg://").strip("/").replace(".", "/")
        places = [place for start in starts if is_there(place := start / package, Path.is_dir)]
        return tuple(places[:1]) or (starts[0] / package,)
    if "$" in path:  # a folder that only a run would tell
        return tuple(start / _known_end(path) for start in starts)
    return (Path(normpath(program.file.parent / path)),)


def in_tree(program: Path, path: str, name: str, starts: Sequence[Path]) -> Path | None:
    """The file of a configuration that is not where Hydra looks for it, but somewhere in the same tree.

    Args:
        program: the file whose code names it.
        path: of its folder, as the code has it.
        name: of the file.
        starts: the folders from which the program may be meant, the nearest first.
    """
    around = [start for start in starts if program.is_relative_to(start)]
    below = path.lstrip("./")
    named = (start / below / name for start in around if below)
    file = next((file for file in named if is_there(file, Path.is_file)), None)
    if file is not None or not around:
        return file
    alike = [file for file in files_below(around[0]) if file.name == name]
    return alike[0] if len(alike) == 1 else None


def files_below(top: Path) -> Iterator[Path]:
    """The files below a folder, without what is hidden; the first some thousands."""
    import os

    entries = 0
    for folder, folders, files in os.walk(top):
        entries += len(folders) + len(files)
        if entries > _MOST_ENTRIES:
            return
        folders[:] = sorted(below for below in folders if not below.startswith("."))
        yield from (Path(folder) / file for file in files)


def _known_end(path: str) -> str:
    """What of a path is known behind the last part of it that is not: "a/b" of ``$ROOT/a/b``."""
    return path.rpartition("$")[2].partition("/")[2] if "$" in path else path
