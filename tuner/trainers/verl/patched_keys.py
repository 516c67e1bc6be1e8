"""Keys that a project adds to verl's YAML by a patch, which one of its files says how to apply.

``git apply patches/verl.patch`` in a README, an image or an install script: a line that the patch adds to a
file below ``verl/trainer/config`` is a key of the verl that the launch is for.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tuner.errors import InputError
from tuner.files import is_there, read_bytes, repository_folders
from tuner.inputs.tree import split_key
from tuner.trainers.verl.package_pins import installing_files
from tuner.units import MIB

#: The file behind a command that applies it: ``git apply --directory=verl a.patch``, ``patch -p1 < a.diff``.
_APPLIED = re.compile(r"\b(?:git\s+(?:apply|am)|patch)\b[^\n;&|]*?([\w./~${}-]+\.(?:patch|diff))\b")
_UP = re.compile(r"^(?:\.\.?/)+")
_CONFIG = re.compile(r"^\+\+\+ (?:\S*/)?verl/trainer/config/(\S+)\.ya?ml", re.MULTILINE)
_HUNK = re.compile(r"^@@ [^@]*@@ ?(?:([A-Za-z_]\w*):)?")
_SECTION = re.compile(r"^[ +]([A-Za-z_]\w*):")
_ADDED = re.compile(r"^\+\s*([A-Za-z_]\w*):(?:\s|$)")


#: Keys, each with the section, or the group, that it stands in.
AddedKeys = frozenset[tuple[str, str]]


def added_keys(folder: str, launch: Iterable[str]) -> AddedKeys:
    """The keys that patches add which a launch, or a file around it, says to apply.

    Args:
        folder: in which the launch lies.
        launch: its files.
    """
    patches = dict.fromkeys(_applied(folder, launch))
    return frozenset(added for patch in patches for added in _added(_text(patch)))


def has_key(added: AddedKeys, key: str) -> bool:
    """Whether a key that no configuration has is among those that patches add."""
    path = split_key(key) if added else ()
    return any(name == path[-1] and section in (path[0], *path[:-1]) for section, name in added)


def _applied(folder: str, launch: Iterable[str]) -> Iterator[Path]:
    """The patches that are here, of those that are applied; a path may count from any folder above."""
    above = list(repository_folders(Path(folder).absolute()))
    for file in dict.fromkeys((*map(Path, launch), *installing_files(folder))):
        for match in _APPLIED.finditer(_text(file)):
            named = match[1].rpartition("}")[2].lstrip("/") if "$" in match[1] else match[1]
            named = _UP.sub("", named)  # from a folder that the command changes to
            yield from (
                place / named for place in (file.parent, *above) if is_there(place / named, Path.is_file)
            )


def _added(patch: str) -> Iterator[tuple[str, str]]:
    """The keys that a patch adds to a configuration, each with the section, or the group, that it is in.

    Git writes the last line that begins without a blank behind the numbers of a hunk: the top section.
    """
    for part in re.split(r"(?m)^(?=--- )", patch):
        config = _CONFIG.search(part)
        if config is None:
            continue
        group = config[1].rpartition("/")[0].rpartition("/")[2]
        section = group
        for line in part[config.end() :].splitlines():
            hunk = _HUNK.match(line)
            if hunk is not None:
                section = group or hunk[1] or ""
            elif not group and (top := _SECTION.match(line)) is not None:
                section = top[1]
            if (added := _ADDED.match(line)) is not None:
                yield section, added[1]


def _text(file: Path) -> str:
    try:
        return read_bytes(file, most=MIB).decode("utf-8", "replace") if is_there(file, Path.is_file) else ""
    except InputError:
        return ""
