"""Assignments of a script with a blank before the value: ``export LENGTH= 8192`` leaves ``LENGTH`` empty."""

import re
from pathlib import Path

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.inputs.shell.source import MOST_BYTES

_NAME = re.compile(r"\$\{?([A-Za-z_]\w*)", re.ASCII)
_PARTED = r"^[ \t]*(?:export|declare|readonly)[ \t]+(?:-\w+[ \t]+)*({names})=[ \t]+[^\s#;&|]"


def parted_assignment(place: Location) -> tuple[str, Location] | None:
    """The assignment that leaves empty a variable which a line of a script uses, by its text and where it is.

    Args:
        place: of the line, in a file.
    """
    file = Path(place.source)
    if place.line is None or not is_there(file, Path.is_file):
        return None
    try:
        text = read_bytes(file, most=MOST_BYTES).decode("utf-8", "replace")
    except InputError:
        return None
    names = _NAME.findall("".join(text.splitlines()[place.line - 1 : place.line]))
    if not names:
        return None
    parted = re.compile(_PARTED.format(names="|".join(names)), re.MULTILINE)
    last = max(parted.finditer(text), key=lambda match: match.start(), default=None)
    if last is None:
        return None
    line = text.count("\n", 0, last.start(1)) + 1
    return f"{last[1]}=", Location(source=place.source, line=line)
