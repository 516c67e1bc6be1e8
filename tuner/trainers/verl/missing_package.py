"""Whether a launch or the files around it say that a package cannot be had where the job runs.

A comment counts, and an option that leaves the package out; what is said on a condition does not.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner.errors import InputError
from tuner.files import is_there, read_bytes
from tuner.trainers.verl.package_pins import installing_files
from tuner.units import MIB

#: How people spell the packages that may be missing, by what they are installed as.
_SPELLED = {"flash-attn": r"flash[-_ ]?att(?:entio)?n(?:[-_ ]?2)?"}
_DOUBTED = re.compile(
    r"\b(?:if|when|where|unless|in case|otherwise|optional|model|head|gpus?)\b", re.IGNORECASE
)
_NOT_TO_BE_HAD = (
    r"\bPACKAGE\b[^.;]{0,30}?(?:\b(?:cannot|can not|could not|is not|not|fails? to|failed to)\b|n't\b)"
    r"[^.;]{0,12}?\b(?:install(?:ed|able)?|build|built|compile[ds]?|available|importable)\b"
)
_LACKING = (
    r"\b(?:no|without|lacks?|missing)\s+(?:the\s+|package\s+|`)*PACKAGE\b"
    r"|\bPACKAGE`?\s+(?:is\s+)?(?:missing|unavailable)\b"
)
_LEFT_OUT = r"(?<![\w-])--no[-_]PACKAGE\b(?!\s*[=]?\s*(?:false|0)\b)"
_PROSE = (".md", ".rst", ".txt", "")
_ADDRESS = re.compile(r"https?://\S+|--no[-_]build[-_]isolation")


def said_missing(folder: str, launch: Iterable[str], package: str) -> bool:
    """Whether somebody says that a package is not there.

    Args:
        folder: in which the launch lies; empty where nobody says.
        launch: the files that the launch itself stands in.
        package: as it is installed.
    """
    spelled = _SPELLED.get(package)
    if spelled is None:
        return False
    left_out, own, around = (
        re.compile(form.replace("PACKAGE", spelled), re.IGNORECASE)
        for form in (_LEFT_OUT, f"{_NOT_TO_BE_HAD}|{_LACKING}", _NOT_TO_BE_HAD)
    )
    mine = [Path(file) for file in launch]
    others = installing_files(folder) if folder else []
    for file in dict.fromkeys((*mine, *others)):
        text = _text(file)
        if left_out.search(text) and not _is_prose(file):
            return True
        says = own if file in mine else around
        if any(says.search(line) and not _DOUBTED.search(line) for line in _prose_lines(file, text)):
            return True
    return False


def _prose_lines(file: Path, text: str) -> Iterator[str]:
    """The lines of a text that people wrote for one another: comments, and all of a README."""
    for line in text.splitlines():
        before, mark, comment = line.partition("#")
        if _is_prose(file):
            yield _ADDRESS.sub("", line)
        elif mark and (not before or before[-1].isspace()):
            yield _ADDRESS.sub("", comment)


def _is_prose(file: Path) -> bool:
    return file.suffix.lower() in _PROSE and not file.name.startswith("Dockerfile")


def _text(file: Path) -> str:
    try:
        return read_bytes(file, most=MIB).decode("utf-8", "replace") if is_there(file, Path.is_file) else ""
    except InputError:
        return ""
