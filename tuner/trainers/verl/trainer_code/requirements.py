"""Which version of a package a copy of the trainer asks for, in the files that say what it needs."""

import re
from pathlib import Path

from msgspec import Struct

from tuner.errors import InputError
from tuner.files import is_there, read_bytes
from tuner.versions import at_least, numbers

_FILES = ("requirements.txt", "setup.py", "pyproject.toml")
_OF_OTHER_CARDS = "npu"  # in the name of a file of what runs on Ascend cards alone
_MORE = ("requirements*.txt", "*environment*.yml", "*environment*.yaml")  # the others are conda's
_EXTRAS = r"(?:\[[^\]]*\])?"  # as ``sglang[srt,openai]`` has them
_COMMENT = re.compile(r"(^|\s)#.*")
_VERSION = r"\d+(?:\.\w+)*"
_MAX_BYTES = 1 << 20

#: Where the trainer chooses between its own copies of an engine's classes, by the version that is installed.
_CHOICES = "verl/third_party/{package}/__init__.py"
_CHOICE = re.compile(rf"""package_version\s*==\s*["']({_VERSION})""")
_OR_NEWER = re.compile(r"package_version\)?\s*>=?")


class Requirement(Struct, frozen=True, kw_only=True):
    """The newest version that a file allows."""

    version: str
    pinned: bool  # no other one
    file: str  # by its name, with that of its folder


def newest_required(root: Path, package: str) -> Requirement | None:
    """The version of a package that the files beside a copy pin, else the newest that they allow.

    No newer one than the copy's own code takes: with another one it raises an error when it is imported.

    Args:
        root: the folder that holds the copy's package.
        package: as it is installed, such as ``vllm``.
    """
    asked, taken = _newest_asked(root, package), newest_taken(root, package)
    if asked is None or taken is None:
        return asked or taken
    return taken if not at_least(taken.version, asked.version) else asked


def newest_taken(root: Path, package: str) -> Requirement | None:
    """The newest version that a copy's code names one by one; None where it takes any newer one as well."""
    file = _CHOICES.format(package=package)
    if not is_there(root / file, Path.is_file):
        return None
    text = "\n".join(_lines(root / file))
    versions = sorted(_CHOICE.findall(text), key=numbers)
    if not versions or _OR_NEWER.search(text):
        return None
    return Requirement(version=versions[-1], pinned=False, file=f"{root.name}/{file}")


def _newest_asked(root: Path, package: str) -> Requirement | None:
    """The version that the files beside a copy pin, else the newest that they allow."""
    asked = re.compile(rf"(?:^|[\"'\s\[]){re.escape(package)}{_EXTRAS}\s*((?:[<>=!~]=?\s*[\w.*]+\s*,?\s*)+)")
    bounds = [
        (word, version, file)
        for file in _named(root)
        for line in _lines(root / file)
        for asks in asked.findall(_COMMENT.sub("", line))
        for word, version in re.findall(rf"(==|<=)\s*({_VERSION})", asks)
    ]
    for wanted in ("==", "<="):
        for word, version, file in bounds:
            if word == wanted:
                return Requirement(version=version, pinned=word == "==", file=f"{root.name}/{file}")
    return None


def _named(root: Path) -> list[str]:
    """The files of a folder that say what is needed, by their names."""
    try:
        more = [
            name
            for form in _MORE
            for name in sorted(file.name for file in root.glob(form))
            if _OF_OTHER_CARDS not in name.lower()
        ]
    except OSError:
        more = []
    return [file for file in dict.fromkeys((*_FILES, *more)) if is_there(root / file, Path.is_file)]


def _lines(file: Path) -> list[str]:
    """The lines of a file; none of one that cannot be read."""
    try:
        return read_bytes(file, most=_MAX_BYTES).decode("utf-8", "replace").splitlines()
    except InputError:
        return []
