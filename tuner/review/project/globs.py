"""Which inputs the patterns of a settings file mean."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path


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
