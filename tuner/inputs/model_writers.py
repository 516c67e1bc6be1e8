"""Programs that a script runs before its launch and that may change the model which the launch reads.

``python extend_context.py --model_path=$MODEL``, then the trainer with that model: its ``config.json`` need
not be the published one any more.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner.errors import InputError
from tuner.files import is_there, read_bytes
from tuner.inputs.earlier_programs import EarlierProgram
from tuner.inputs.shell.launches import Launch
from tuner.units import MIB

_FOLDERS_UP = 8  # above a script, in which a program that it runs is looked for
_WRITES_CONFIG = (b"config.json", b"save_pretrained", b"max_position_embeddings", b"rope_scaling")


def writers_of_config(earlier: Iterable[Launch], folder: Path) -> Iterator[EarlierProgram]:
    """The programs that may write a model's ``config.json``: code that says so, and files that are not here.

    Modules that are not here are of published packages, which leave a model as it is.

    Args:
        earlier: the programs before a launch.
        folder: where the script lies.
    """
    for launch in earlier:
        code = _code(launch.program, (*map(Path, launch.folders), *_around(folder)))
        may = launch.program.endswith(".py") if code is None else any(word in code for word in _WRITES_CONFIG)
        if may:
            words = tuple(str(field.text) for field in launch.arguments)
            yield EarlierProgram(name=launch.program, words=words, location=launch.location)


def _around(folder: Path) -> tuple[Path, ...]:
    return (folder, *list(folder.absolute().parents)[:_FOLDERS_UP])


def _code(program: str, folders: Iterable[Path]) -> bytes | None:
    """What stands in a program's file; None where that is not here."""
    name = program if program.endswith(".py") else f"{program.replace('.', '/')}.py"
    file = next((folder / name for folder in folders if is_there(folder / name, Path.is_file)), None)
    if file is None:
        return None
    try:
        return read_bytes(file, most=MIB)
    except InputError:
        return None
