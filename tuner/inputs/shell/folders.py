"""Where a script is, and where it goes: ``cd``, ``pwd``, ``realpath``."""

import re
from collections.abc import Sequence
from os.path import normpath
from pathlib import Path

from tuner.errors import Location
from tuner.files import STANDARD_INPUT
from tuner.inputs.overrides import COMMAND_LINE
from tuner.inputs.shell.scope import Scope
from tuner.inputs.shell.values import Text

_NO_FILES = (COMMAND_LINE, STANDARD_INPUT)
_OF_START = re.compile(r"^\$PWD(?=/|$)")  # of a script that has gone nowhere yet


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


def python_folders(scope: Scope, environment: Sequence[tuple[str, Text]]) -> tuple[str, ...]:
    """The folders in which Python looks for a program's modules: where it runs, then ``PYTHONPATH``.

    Those that only a run would tell are left out.

    Args:
        scope: of the shell that starts the program.
        environment: assignments in front of it.
    """
    current = scope.variables.get("PWD")
    here = current.string if isinstance(current, Text) else None
    path = dict(environment).get("PYTHONPATH", scope.variables.get("PYTHONPATH"))
    named = _known_folders(path) if isinstance(path, Text) else []
    relative = [
        name if here is None or name.startswith("/") else normpath(f"{here}/{name}") for name in named
    ]
    return tuple(dict.fromkeys((*([here] if here else []), *relative)))


def folder_spelling(name: str, scope: Scope, place: Location) -> str:
    """A path as every command of a script has it: absolute, or from where the script is started.

    Args:
        name: of a file or a folder, with variables that nobody sets by their names.
        scope: of the shell that names it.
        place: where it does.
    """
    known = None if "$" in name else absolute(name, scope, place)
    if known is not None:
        return known
    current = scope.variables.get("PWD")
    if current is None:
        return normpath(_OF_START.sub(".", name))
    return normpath(name if name.startswith(("$", "~")) else f"{current}/{name}")


def search_path(scope: Scope, environment: Sequence[tuple[str, Text]], place: Location) -> tuple[str, ...]:
    """Where Python looks for modules, as :func:`folder_spelling` has it: where it runs, then ``PYTHONPATH``.

    Args:
        scope: of the shell that starts the program.
        environment: assignments in front of it.
        place: of the command.
    """
    path = dict(environment).get("PYTHONPATH", scope.variables.get("PYTHONPATH"))
    parts = _parts(path) if isinstance(path, Text) else []
    return tuple(dict.fromkeys(folder_spelling(part, scope, place) for part in (".", *filter(None, parts))))


def _parts(path: Text) -> list[str]:
    """The parts between the colons, with the names of what is not known in them."""
    names = [str(piece) for piece in path.pieces if not isinstance(piece, str)]
    marked = "".join(piece if isinstance(piece, str) else "\0" for piece in path.pieces)
    following = iter(names)
    return [re.sub("\0", lambda _match: next(following), part) for part in marked.split(":")]


def _known_folders(path: Text) -> list[str]:
    """The parts between the colons of which every piece is known."""
    marked = "".join(piece if isinstance(piece, str) else "\0" for piece in path.pieces)
    return [part for part in marked.split(":") if part and "\0" not in part]
