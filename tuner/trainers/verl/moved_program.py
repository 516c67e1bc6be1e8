"""The program of a launch that is not where the launch says: moved within its tree, or not in it at all."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tuner.errors import Location
from tuner.files import is_there
from tuner.inputs.missing_configuration import program_missing_text
from tuner.inputs.program.find import file_of_program, files_below, starting_folders
from tuner.inputs.user_input import MissingConfiguration
from tuner.trainers.verl.module_names import is_released
from tuner.trainers.verl.recipes import started_as

_NAME = "verl"


class MovedProgram(Struct, frozen=True, kw_only=True):
    """A module that the folder of its first package lacks, with those of the same last name there."""

    asked: str
    alike: tuple[str, ...]

    @property
    def read(self) -> str:
        """The module that is read in its place: the only one, else the one that was asked for."""
        return self.alike[0] if len(self.alike) == 1 else self.asked


def moved_program(program: str, folder: str, folders: Sequence[str]) -> MovedProgram | None:
    """Where else in the tree a module lies; None where it is there, or may be in another tree.

    Args:
        program: that the launch starts; verl's own are asked of the copy itself.
        folder: that the launch lies in; empty where nobody says.
        folders: that it starts the program in, and has Python look for modules in.
    """
    parts = program.split(".")
    if not folder or len(parts) < 2 or parts[0] == _NAME or parts[-1] == "py":
        return None
    if not all(part.isidentifier() for part in parts):
        return None
    first, name = parts[0], parts[-1]
    starts = starting_folders(folder, folders)
    top = next((start for start in starts if is_there(start / first, Path.is_dir)), None)
    named = [Path.cwd() / place for place in folders]
    if top is None or (named and top not in named) or file_of_program(program, starts) is not None:
        return None
    files = (file.relative_to(top) for file in files_below(top / first) if file.name == f"{name}.py")
    modules = sorted(".".join(file.with_suffix("").parts) for file in files)
    return MovedProgram(asked=program, alike=tuple(modules)) if modules else None


def unseen_program(
    program: str, folder: str, folders: Sequence[str], location: Location
) -> MissingConfiguration | None:
    """What is not known where a program is none of a release's and its file is not in the tree.

    A module of a package ``verl`` that no release has is of a fork: what its configuration has nobody knows.

    Args:
        program: that the launch starts; empty where nobody says.
        folder: that the launch lies in; empty where nobody says.
        folders: that it starts the program in, and has Python look for modules in.
        location: of the launch.
    """
    parts = program.removesuffix(".py").replace("/", ".").split(".")
    if not program or started_as(program) is not None or is_released(".".join(parts)):
        return None
    if _NAME in parts and (parts[0] != _NAME or program.endswith(".py")):  # in a copy, wherever that is
        return None
    starts = starting_folders(folder, folders)
    if file_of_program(program, starts) is not None:
        return None
    return MissingConfiguration(
        name="", looked_in=(), reason=program_missing_text(program, starts), location=location
    )
