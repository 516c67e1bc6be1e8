"""Finds the file with a project's settings, looking at few paths, and which inputs its patterns mean."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from tuner.files import is_there

OWN_NAMES = ("tuner.toml", ".tuner.toml")  # the first wins where a folder has several
SHARED_NAME = "pyproject.toml"  # which counts where it has a table of ours
TABLE = ("tool", "tuner")
VARIABLE = "TUNER_CONFIG"  # names the file in place of looking for one
_MOST_SHARED_BYTES = 1024 * 1024  # of a pyproject.toml that is searched
_HEADER = re.compile(rb"^\s*\[{1,2}\s*[\"']?tool[\"']?\s*\.\s*[\"']?tuner\b", re.M)


def matches(file: Path, patterns: Sequence[str], folder: Path) -> bool:
    """Whether one of the patterns means a file.

    A pattern with a slash is held against the path from the folder on, one without against the name alone.
    ``*`` takes any characters, slashes too.

    Args:
        file: an absolute path.
        patterns: as a settings file has them.
        folder: where the settings file lies.
    """
    try:
        path = file.relative_to(folder).as_posix()
    except ValueError:  # elsewhere
        path = file.as_posix()
    return any(_matches(path, file.name, pattern.removeprefix("./")) for pattern in patterns)


def _matches(path: str, name: str, pattern: str) -> bool:
    # "**/" is what others write for any folders, none among them.
    shorter = pattern.replace("**/", "")
    return any(fnmatchcase(path if "/" in it else name, it) for it in {pattern, shorter})


@lru_cache(maxsize=1024)
def nearest(folder: Path) -> Path | None:
    """The settings file of a folder or of the nearest one above it; the top of a git repository is the last.

    Args:
        folder: an absolute path.
    """
    for name in OWN_NAMES:
        if is_there(folder / name, Path.is_file):
            return folder / name
    shared = folder / SHARED_NAME
    if is_there(shared, Path.is_file) and _has_table(shared):
        return shared
    if folder == folder.parent or is_there(folder / ".git"):
        return None
    return nearest(folder.parent)


def _has_table(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return _HEADER.search(stream.read(_MOST_SHARED_BYTES)) is not None
    except OSError:
        return False
