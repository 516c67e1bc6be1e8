"""Version numbers of released packages: compared with each other, and looked up where one is installed."""

import re
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

VERSION = re.compile(r"v?(\d{1,9}(?:\.\d{1,9}){0,9})(?:[.\-_+]?[a-zA-Z].*)?")


@lru_cache(maxsize=1024)
def at_least(version: str, minimum: str) -> bool:
    """Whether ``version`` is ``minimum`` or newer; suffixes such as rc1, .dev0 and .post1 do not count."""
    return numbers(version) >= numbers(minimum)


def is_version(text: str) -> bool:
    """Whether a text is a version number, with or without a suffix."""
    return VERSION.fullmatch(text) is not None


def numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version, at least three of them.

    Raises:
        ValueError: the text is no version.
    """
    match = VERSION.fullmatch(version.strip())
    if match is None:
        raise ValueError(f"{version!r} is not a version")
    parts = tuple(int(part) for part in match[1].split("."))
    return (*parts, 0, 0, 0)[: max(3, len(parts))]


def installed_folder(package: str) -> str:
    """The folder of an installed package, found without importing it; empty where there is none."""
    spec = find_spec(package)
    folders = () if spec is None else spec.submodule_search_locations or ()
    return next(iter(folders), "")


def installed_version(package: str) -> str | None:
    """The version of an installed package, None where there is none or its version is no number."""
    if find_spec(package) is None:
        return None
    from importlib.metadata import PackageNotFoundError, distributions, version  # 20 ms

    if _is_built_here(package):
        elsewhere = next(iter(distributions(name=package, path=sys.path[1:])), None)
        installed = "" if elsewhere is None else elsewhere.version
    else:
        try:
            installed = version(package)
        except PackageNotFoundError:
            return None
    return installed if is_version(installed) else None


def _is_built_here(package: str) -> bool:
    """Whether a build left metadata of a package in the folder that ``python -m`` is called in.

    Python looks there first; a checkout that has been built is no installation.
    """
    first = Path(next(iter(sys.path), ""))
    return first.absolute() == Path.cwd() and (first / f"{package}.egg-info").is_dir()
