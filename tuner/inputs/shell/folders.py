"""Where a script is, and where it goes: ``cd``, ``pwd``, ``realpath``."""

from os.path import normpath
from pathlib import Path

from tuner.errors import Location
from tuner.files import STANDARD_INPUT
from tuner.inputs.overrides import COMMAND_LINE
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.values import Text

_NO_FILES = (COMMAND_LINE, STANDARD_INPUT)


def absolute(name: str, scope: Scope, place: Location) -> str | None:
    """The absolute path of a name; None where nobody knows which folder it is counted from.

    A script is started from anywhere. Its own folder is known where the name begins with it, as that of
    ``dirname "$0"`` does.

    Args:
        name: of a file or a folder.
        scope: of the shell that names it.
        place: where it does.
    """
    if name.startswith("/"):
        return normpath(name)
    current = scope.variables.get("PWD")
    known = current.string if isinstance(current, Text) else None
    if current is not None:
        return normpath(f"{known}/{name}") if known is not None and known.startswith("/") else None
    for file in (place.source, scope.script):
        folder = str(Path(file).parent)
        if file not in _NO_FILES and (name in (folder, file) or name.startswith(f"{folder}/")):
            return normpath(Path.cwd() / name)
    return None
