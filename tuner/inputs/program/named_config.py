"""The configuration that a launch names, by options or by the code of its program, and where it would lie."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from tuner.errors import Location
from tuner.files import is_there
from tuner.inputs.overrides import Argument, option_value
from tuner.inputs.program.find import ProgramFile, config_folders, in_tree, program_file, starting_folders


class NamedConfig(Struct, frozen=True, kw_only=True):
    """The primary configuration of a launch whose program's file is at hand."""

    program: Path  # its file
    name: str | None  # without ".yaml"; None where there is none, or only a run would tell
    folders: tuple[Path, ...]  # in which Hydra looks for it, the first that has it wins
    file: Path | None  # None where none of them has it
    location: Location  # of the word that names it
    elsewhere: bool = False  # its file lies in none of the folders, but in the same tree
    settled: bool = True  # False where the code of the program computes it
    starts: tuple[Path, ...] = ()  # from which the launch may be meant


def named_config(
    program: str, arguments: Sequence[Argument], *, folder: str, folders: Sequence[str] = ()
) -> NamedConfig | None:
    """The configuration that a launch has Hydra compose; None where its program is not in the tree.

    Args:
        program: a module, or the path of a file; empty where nobody says.
        arguments: that the program gets.
        folder: that the launch lies in; empty where nobody says.
        folders: that it starts the program in, and has Python look for modules in.
    """
    if not program:
        return None
    starts = starting_folders(folder, folders)
    started = program_file(program, starts)
    return None if started is None else _named(started, arguments, starts)


def _named(
    started: ProgramFile, arguments: Sequence[Argument], starts: tuple[Path, ...]
) -> NamedConfig | None:
    name, path, further = (
        option_value(arguments, option) for option in ("config_name", "config_path", "config_dir")
    )
    code = started.config
    if code is None and path is None:  # nothing says where its configurations lie
        return None
    asked = name.text if name is not None else None if code is None else code.name
    stem = None if asked is None else asked.removesuffix(".yaml")
    places = config_folders(started, None if path is None else path.text, starts)
    if further is not None:
        places = (*places, *(start / further.text for start in starts))
    files = () if stem is None else (place / f"{stem}.yaml" for place in places)
    by_option = name or path
    file = next((file for file in files if is_there(file, Path.is_file)), None)
    elsewhere = None
    if file is None and by_option is None and code is not None and stem is not None and code.path:
        elsewhere = in_tree(started.file, code.path, f"{stem}.yaml", starts)
    return NamedConfig(
        program=started.file,
        name=stem,
        folders=tuple(dict.fromkeys(places)),
        file=file or elsewhere,
        elsewhere=elsewhere is not None,
        location=by_option.location
        if by_option is not None
        else Location(source=str(started.file), line=None if code is None else code.line),
        settled=code is None or code.settled or name is not None,
        starts=starts,
    )
