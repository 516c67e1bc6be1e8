"""Files of assignments, ``VERL_COMMIT=...``, that pin what a script installs which reads them.

``source frameworks.lock`` in ``bootstrap.sh`` makes the pins of the one those of the other. A file that no
such script reads pins nothing here: nobody knows who follows it.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuner.errors import InputError, Location
from tuner.files import is_there, read_bytes
from tuner.inputs.installed_packages import CheckedOut
from tuner.units import MIB

_SOURCES = re.compile(r"(?m)(?:^|[\s;&|(])(?:source|\.)[ \t]+\S")
_ASSIGNED = re.compile(
    r"(?m)^[ \t]*(?:(?:export|readonly)[ \t]+)?(?P<name>[A-Z][A-Z0-9]*)"
    r"_(?:COMMIT|SHA|REV|REF|TAG|HASH|PIN|VERSION)[A-Z_]*=[\"']?"
    r"(?:v?(?P<version>\d+(?:\.\d+)+(?:[.-]?post\d+)?)|(?P<commit>(?=[0-9a-f]*\d)[0-9a-f]{7,40}))"
    r"[\"']?[ \t\r]*(?:#.*)?$"
)


def sourced_pins(folder: Path, files: Sequence[Path], scripts: Sequence[Path]) -> Iterator[CheckedOut]:
    """The versions and commits in files of a folder that one of its scripts reads.

    Args:
        folder: one of a repository.
        files: of assignments, in it or below.
        scripts: that install something.
    """
    reading = [text for text in map(_text, scripts) if _SOURCES.search(text)]
    for file in files:
        if not any(file.name in text for text in reading):
            continue
        place, text = f"{folder.name}/{file.relative_to(folder)}", _text(file)
        for match in _ASSIGNED.finditer(text):
            line = text.count("\n", 0, match.start("name")) + 1
            yield CheckedOut(
                name=match["name"].lower(),
                version=match["version"] or "",
                commit=match["commit"] or "",
                day="",
                location=Location(source=place, line=line),
            )


def _text(file: Path) -> str:
    try:
        return read_bytes(file, most=MIB).decode("utf-8", "replace") if is_there(file, Path.is_file) else ""
    except InputError:
        return ""
