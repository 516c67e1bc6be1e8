"""The inputs that folders and patterns on a command line stand for."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from glob import has_magic, iglob
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from tuner.errors import InputError, Location
from tuner.files import STANDARD_INPUT, is_there
from tuner.inputs.log.run_log import is_log
from tuner.inputs.named_inputs import SHELL_NAMES, Input
from tuner.inputs.run_folder import is_run
from tuner.language import _
from tuner.trainers.registry import trainer_of_file
from tuner.units import MIB

_YAML_NAMES = (".yaml", ".yml")
_LOG_NAMES = (".log",)
_LOOKED_AT = MIB  # bytes of a file in a folder, by which it is told what it is
_MOST_FILES = 100_000  # of a folder, or that a pattern matches
_MOST_SEEN = 300_000  # files of a folder whose names are looked at
_LONGEST = 4096  # characters of a pattern, as of a path of Linux; reading one takes the square of its length


def expanded(
    inputs: Sequence[Input], *, watched: Callable[[Iterator[str]], Iterator[str]] = iter
) -> tuple[tuple[Input, ...], tuple[str, ...]]:
    """Folders and patterns replaced by the files that they stand for.

    What belongs to a folder or a pattern belongs to each of its files. A folder that holds the files of one
    run is the configuration of this run, as it is for every command.

    Args:
        inputs: as they were named.
        watched: passes the files of a folder on while they are looked at, for whoever waits.

    Returns:
        The inputs in their order, each once: a file counts again only with other words behind it. Then the
        files in folders that configure nothing.

    Raises:
        InputError: a pattern matches nothing, or folders hold too many files.
    """
    listed: dict[tuple[str, tuple[str, ...]], Input] = {}
    skipped: list[str] = []
    for given in inputs:
        for name in _matches(given):
            files = [name]
            if not given.pasted and _is_walked(name):
                walked, others = _walked(name, watched)
                # A folder without any is an input that cannot be used, which says so.
                files = walked or [name]
                skipped += others
            for file in files:
                # "./a.yaml" is "a.yaml" again; another link to it may lie where other settings hold.
                listed.setdefault((str(Path(file)), given.words), replace(given, config=file))
    return tuple(listed.values()), tuple(dict.fromkeys(skipped))


def _is_walked(name: str) -> bool:
    return name != STANDARD_INPUT and is_there(name, Path.is_dir) and not is_run(Path(name))


def _matches(given: Input) -> list[str]:
    """What a pattern matches, in the order of its names; a name that is no pattern as it is."""
    name = given.config
    if given.pasted or not has_magic(name) or is_there(name):
        return [name]
    matched = _globbed(name) if len(name) <= _LONGEST else []
    if not matched:
        raise InputError(
            _("no file matches the pattern"),
            location=Location(source=name),
            hint=_("check it; ** stands for any number of folders"),
        )
    return matched


def _globbed(pattern: str) -> list[str]:
    matched = islice(iglob(pattern, recursive=True), _MOST_FILES + 1)  # noqa: PTH207 - Path: no absolute one
    names = sorted(_without_circles(pattern, matched))
    if len(names) > _MOST_FILES:
        raise InputError(
            _("matches more than {most:,} files").format(most=_MOST_FILES),
            location=Location(source=pattern),
            hint=_("narrow it, or name folders"),
        )
    return names


def _without_circles(pattern: str, matched: Iterable[str]) -> Iterator[str]:
    """What a pattern matches, without what lies behind a link to a folder that ``**`` would have to follow.

    A shell does not follow it either, since it may lead back to where it lies.
    """
    pattern_parts = Path(pattern).parts
    if "**" not in pattern_parts:
        yield from matched
        return
    is_link = cache(Path.is_symlink)  # many files lie in few folders
    first, behind = pattern_parts.index("**"), pattern_parts[::-1].index("**")
    for name in matched:
        parts = Path(name).parts
        walked = (Path(*parts[:length]) for length in range(first + 1, len(parts) - behind + 1))
        if not any(map(is_link, walked)):
            yield name


def _walked(folder: str, watched: Callable[[Iterator[str]], Iterator[str]]) -> tuple[list[str], list[str]]:
    """The files in a folder that configure a trainer, and those of the same kinds that do not."""
    wanted: list[str] = []
    others: list[str] = []
    for file in watched(_files(folder)):
        (wanted if _may_configure(file) else others).append(file)
        if len(wanted) + len(others) > _MOST_FILES:
            raise InputError(
                _("holds more than {most:,} files to look at").format(most=_MOST_FILES),
                location=Location(source=folder),
                hint=_("name the folders with the configurations"),
            )
    return wanted, others


def _files(folder: str) -> Iterator[str]:
    """Files that may be configurations, by their names; hidden files and folders are left out."""
    visited = 0
    for here, folders, files in os.walk(folder):
        visited += len(files)
        if visited > _MOST_SEEN:
            raise InputError(
                _("holds more than {most:,} files to look at").format(most=_MOST_SEEN),
                location=Location(source=folder),
                hint=_("name the folders with the configurations"),
            )
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and name.endswith(_YAML_NAMES + SHELL_NAMES + _LOG_NAMES):
                yield str(Path(here, name))


def _may_configure(file: str) -> bool:
    try:
        data = _beginning(Path(file))
    except OSError:
        return True  # to be named as what cannot be read
    if file.endswith(_LOG_NAMES) and not is_log(data):
        return False
    return trainer_of_file(data.decode("utf-8", "replace"), yaml=file.endswith(_YAML_NAMES)) is not None


def _beginning(file: Path) -> bytes:
    """The first bytes of a regular file; of a pipe nothing, since it would be read only once."""
    if not file.is_file():
        return b""
    with file.open("rb") as stream:
        return stream.read(_LOOKED_AT)
